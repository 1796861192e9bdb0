-- Functions of take_all.lua alone that read its arguments: lists of numbers, algorithms, limits.

local VALUES_MAX = 2000 -- Lua's stack bounds the arguments and results of a C function to some thousands

-- The format of `count` doubles for `struct`.
local function format_of(count)
  return string.format('<%s', string.rep('d', count))
end

-- The numbers packed in `text`, as a list.
local function unpack_all(text)
  local numbers, count = {}, #text / 8
  for from = 1, count, VALUES_MAX do
    local size = min(VALUES_MAX, count - from + 1)
    local some = { struct.unpack(format_of(size), text, from * 8 - 7) }
    some[size + 1] = nil -- struct.unpack also returns the position after the numbers
    if from == 1 then
      numbers = some
    else
      for i = 1, size do numbers[from + i - 1] = some[i] end
    end
  end
  return numbers
end

-- Packs a list of numbers into one text.
local function pack_all(numbers)
  local count, texts = #numbers, {}
  for from = 1, count, VALUES_MAX do
    local size = min(VALUES_MAX, count - from + 1)
    texts[#texts + 1] = struct.pack(format_of(size), unpack(numbers, from, from + size - 1))
  end
  return table.concat(texts)
end

-- Redis runs all definitions of a script on every call. So each algorithm's file is a module: a function in MODULES, by the file's name,
-- that runs only when the call first uses it.
local MODULES, used = {}, {}

local function use(name)
  if not used[name] then used[name] = MODULES[name]() end
  return used[name]
end

local ALGORITHMS = {
  [0] = 'token_bucket', [1] = 'sliding_window', [2] = 'fixed_window', [3] = 'sliding_log', [4] = 'counter',
  [5] = 'calendar_window',
}

-- The limits packed in `text`, five numbers each: algorithm (its number in ALGORITHMS), amount, burst, window in seconds, largest debt
-- (for a counter: its lifetime in seconds). For a calendar window the last three are start and end of the caller's window and the end
-- of the next one, in microseconds.
local function read_limits(text)
  local limits = {}
  for from = 1, #text, 40 do
    local algorithm, amount, burst, seconds, debt_max = struct.unpack('<ddddd', text, from)
    limits[#limits + 1] = {
      algorithm = use(ALGORITHMS[algorithm]), is_counter = algorithm == 4,
      amount = amount, burst = burst, debt_max = debt_max, tick_us = seconds, window_us = seconds * 1000000,
      skew_us = min(seconds * 1000000, SKEW_US_MAX),
      start_us = burst, end_us = seconds, next_end_us = debt_max,
    }
  end
  return limits
end
