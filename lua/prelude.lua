-- Prelude: numbers and helpers that the algorithms and take_all.lua share. scripts.ts puts it in front of them.
-- All numbers are whole and stay below 2^53, where doubles are exact. Times are microseconds of the server's clock.
-- Never `tostring` or `..` a number: both keep 14 digits and a time has 16. `digits` keeps them all.
-- Arguments and reply hold numbers as doubles, least significant byte first: a tenth of the work that digits are. State is
-- text, which people can read.

-- Words of the protocol with src/core/take.ts.
local KIND_ORDINARY, KIND_QUOTA = 0, 1
local MODE_PAY, MODE_PEEK, MODE_REFUND, MODE_POST_PAID, MODE_CHARGE, MODE_DENIED = 0, 1, 2, 3, 4, 5
local OUTCOME_ROOM, OUTCOME_OVER, OUTCOME_NEVER = 1, 2, 3
local VERDICT_ALLOWED, VERDICT_REFUSED, VERDICT_TOO_LATE, VERDICT_NO_COUNT = 1, 2, 3, 4

local TICKS = 1000000 -- in one window; as millionths, also in one token
local AMOUNT_MAX = 4294967295
local EXACT_MAX = 9007199254740991
local SKEW_US_MAX = 10000000 -- state dated later than now by more than this is taken as dated now
local VALUES_MAX = 2000 -- a C function may take and return some thousand
local WAIT_US_MAX = 315360000000000 -- ten years; no wait is told as longer and no key lives longer, which keeps PX within what Redis accepts

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

-- Where the C library's long is too short for a time, the slower format has to do.
local IS_LONG = string.format('%d', EXACT_MAX) == '9007199254740991'
local ONE, TWO = IS_LONG and '%d' or '%.0f', IS_LONG and '%d %d' or '%.0f %.0f'
local THREE = IS_LONG and '%d %d %d' or '%.0f %.0f %.0f'

-- One, two or three whole numbers as text, with blanks between them.
local function digits(one, two, three)
  if three then return string.format(THREE, one, two, three) end
  if two then return string.format(TWO, one, two) end
  return string.format(ONE, one)
end

-- The format of so many doubles.
local function format_of(count)
  return string.format('<%s', string.rep('d', count))
end

-- The numbers packed in `text`, as a list.
local function unpack_all(text)
  local numbers, count = {}, #text / 8
  for from = 1, count, VALUES_MAX do
    local size = min(VALUES_MAX, count - from + 1)
    local some = { struct.unpack(format_of(size), text, from * 8 - 7) }
    some[size + 1] = nil -- the place behind them
    if from == 1 then
      numbers = some
    else
      for i = 1, size do numbers[from + i - 1] = some[i] end
    end
  end
  return numbers
end

-- A list of numbers as one text.
local function pack_all(numbers)
  local count, texts = #numbers, {}
  for from = 1, count, VALUES_MAX do
    local size = min(VALUES_MAX, count - from + 1)
    texts[#texts + 1] = struct.pack(format_of(size), unpack(numbers, from, from + size - 1))
  end
  return table.concat(texts)
end

-- The number that `text`, digits or nil, writes, or nil if it is no whole number from 0 to `largest`.
local function whole(text, largest)
  local number = text and tonumber(text)
  if number and number <= largest then return number end
  return nil
end

