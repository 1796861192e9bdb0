-- Entry script: charges counters as envoyproxy/ratelimit keeps them, so that both services count together: one integer
-- per window, under a key that contains the window. A group has nothing but counters; what else its call asks for is
-- asked afterwards (take.lua).
-- KEYS     the keys of all counters, each once
-- ARGV     each a string of doubles
--          1  time in microseconds, or 0 for the server's clock
--          2  limits, two numbers each: amount, lifetime of a counter in seconds
--          3  groups, per group: number of takes, latest time at which it may be charged (0: any), a number that says
--             nothing here; and per take: key, limit, two numbers that say nothing here, mode, cost. Keys and limits
--             are given by their index, from 1.
--             src/engine/counters/counter-settlement.ts explains the modes.
-- reply    string of doubles: time, 0, then per group its verdict. Unless that is VERDICT_TOO_LATE (nothing was
--          charged) or VERDICT_NO_COUNT (a key holds no count), six numbers per take follow: outcome, remaining, 0, 0,
--          count, 0
-- state    string, an integer
-- lifetime given by the caller, renewed by every charge
-- Counts are text and not numbers of Lua on their way, because they may be larger than Lua represents exactly.

local COUNT_MAX, COUNT_MAX_TEXT = 9223372036854775807, '9223372036854775807'
-- Bytes of a group's head, and of a take.
local HEAD_BYTES, TAKE_BYTES = 24, 48

local limits, groups = ARGV[2], ARGV[3]

-- Charges hits; returns the new count, or nil if the key holds no count. A count that would overflow becomes COUNT_MAX.
local function add(key, hits, lifetime_s)
  local count = redis.pcall('INCRBY', key, hits < COUNT_MAX and format(ONE, hits) or COUNT_MAX_TEXT)
  if type(count) == 'table' and string.find(count.err, 'overflow') then
    call('SET', key, COUNT_MAX_TEXT)
    count = COUNT_MAX
  end
  call('EXPIRE', key, format(ONE, lifetime_s))
  if type(count) == 'table' or count < 0 then return nil end
  return count
end

-- The current count: 0 if the key does not exist, nil if it holds something else.
local function read(key)
  local text = redis.pcall('GET', key)
  if not text then return 0 end
  if type(text) == 'table' or not string.find(text, '^%d+$') then return nil end
  return tonumber(text)
end

-- Gives hits back; a count does not fall below 0, and a missing counter is not created.
local function give_back(key, hits)
  local count = read(key) or 0
  if count > 0 then call('DECRBY', key, format(ONE, min(count, EXACT_MAX, hits))) end
end

-- A take of a group: key, amount, lifetime in seconds, mode, cost.
local function take_at(at)
  local key, limit, _, _, mode, cost = unpack_numbers('<dddddd', groups, at)
  local amount, lifetime_s = unpack_numbers('<dd', limits, limit * 16 - 15)
  return KEYS[key], amount, lifetime_s, mode, cost
end

-- The counters that would be over, by take, if takes from `first` to `last` depend on each other (MODE_PAY); nil if
-- none would. False if a key holds no count.
local function find_over(first, last)
  local over
  for at = first, last, TAKE_BYTES do
    local key, amount, _, mode, cost = take_at(at)
    if mode == MODE_PAY then
      local count = read(key)
      if not count then return false end
      if count + cost > amount then
        over = over or {}
        over[at] = true
      end
    end
  end
  return over
end

-- Charges a group; returns the count of each take, or nil if a key holds no count. Other counters of the group are
-- charged then, too, unless they depend on each other.
local function charge(first, last)
  local over = find_over(first, last)
  if over == false then return nil end
  local counts, is_sound, refunds = {}, true, false
  for at = first, last, TAKE_BYTES do
    local key, _, lifetime_s, mode, cost = take_at(at)
    local is_charged = mode == MODE_POST_PAID or (mode == MODE_PAY and (not over or over[at]))
    if is_charged then
      counts[at] = add(key, cost, lifetime_s)
    elseif mode ~= MODE_REFUND then
      counts[at] = read(key)
    else
      refunds, counts[at] = true, 0
    end
    is_sound = is_sound and counts[at] ~= nil
  end
  if not is_sound then return nil end
  -- Refunds come last, so that no charge of the same call passes because of them.
  for at = first, refunds and last or 0, TAKE_BYTES do
    local key, _, _, mode, cost = take_at(at)
    if mode == MODE_REFUND then give_back(key, cost) end
  end
  for at = first, refunds and last or 0, TAKE_BYTES do
    local key, _, _, mode = take_at(at)
    if mode == MODE_REFUND then counts[at] = read(key) or 0 end
  end
  return counts
end

local now_us = unpack_numbers('<d', ARGV[1])
if now_us == 0 then
  local time = call('TIME')
  now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local out, size_of_out = { now_us, 0 }, 2
local at = 1
while at <= #groups do
  local size, latest_us = unpack_numbers('<dd', groups, at)
  local first, last = at + HEAD_BYTES, at + HEAD_BYTES + (size - 1) * TAKE_BYTES
  local counts = (latest_us == 0 or now_us <= latest_us) and charge(first, last)
  size_of_out = size_of_out + 1
  out[size_of_out] = counts and VERDICT_ALLOWED or (counts == nil and VERDICT_NO_COUNT or VERDICT_TOO_LATE)
  for take = first, counts and last or 0, TAKE_BYTES do
    local _, amount, _, mode = take_at(take)
    local count = counts[take]
    out[size_of_out + 1] = count > amount and mode ~= MODE_REFUND and OUTCOME_OVER or OUTCOME_ROOM
    out[size_of_out + 2], out[size_of_out + 3], out[size_of_out + 4] = max(0, amount - count), 0, 0
    out[size_of_out + 5], out[size_of_out + 6] = min(count, EXACT_MAX), 0
    size_of_out = size_of_out + 6
  end
  at = last + TAKE_BYTES
end
return pack_numbers('<' .. rep('d', size_of_out), unpack(out, 1, size_of_out))
