-- Counters as envoyproxy/ratelimit keeps them, so that both services count together: one integer per window, under a key that contains
-- the window. Each counter is charged whatever the verdict is; the other takes of the group are settled afterwards.
-- state     string, an integer; the key contains its window
-- lifetime  given by the caller (`debt_max` of the limit, in seconds), renewed by every charge
-- Unlike the other algorithms this one calls Redis, because a count may be larger than Lua numbers represent exactly.

counter = { count = {}, is_over = {}, is_charged = {} }

local COUNT_MAX, COUNT_MAX_TEXT = 9223372036854775807, '9223372036854775807'

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

-- In the functions below, the numbers of a group's takes are in `groups`, from `first` to `last`.

-- Which counters may be charged by a call that charges only counters that are over, by take: none if the local cache denied one, else
-- those that are over, or all (nil) if none is over. The first result is false if a key holds no count.
local function choose(first, last)
  local over, has_over, is_denied = {}, false, false
  for take = first, last, 48 do
    local key, limit, _, _, mode, cost = unpack_numbers('<dddddd', groups, take)
    local _, amount = unpack_numbers('<dd', limits, limit * 40 - 39)
    is_denied = is_denied or mode == MODE_DENIED
    if mode == MODE_CHARGE then
      local count = read(KEYS[key])
      if not count then return false end
      over[take] = count + cost > amount
      has_over = has_over or over[take]
    end
  end
  if is_denied then return true, {} end
  return true, has_over and over or nil
end

-- Charges the counters of a group. Notes by take the count, whether it is over, and whether it was charged. False if a key holds no
-- count; unless `stops_at_over`, the other counters are charged then too.
function counter.charge(first, last, stops_at_over)
  local is_sound, choice = true, nil
  if stops_at_over then
    is_sound, choice = choose(first, last)
    if not is_sound then return false end
  end
  for take = first, last, 48 do
    local key, limit, _, _, mode, cost = unpack_numbers('<dddddd', groups, take)
    local _, amount, _, _, lifetime_s = unpack_numbers('<ddddd', limits, limit * 40 - 39)
    if mode == MODE_CHARGE then
      local is_charged = not choice or choice[take]
      local count = add(KEYS[key], is_charged and cost or 0, lifetime_s)
      is_sound = is_sound and count ~= nil
      counter.count[take], counter.is_charged[take] = count or 0, is_charged
      counter.is_over[take] = counter.count[take] > amount
    elseif mode == MODE_DENIED then
      counter.count[take], counter.is_over[take] = amount, true
    end
  end
  return is_sound
end

-- Gives hits back to the counters of a group; a count does not fall below 0, and a missing counter is not created.
function counter.refund(first, last)
  local left = {} -- by key, after all refunds of the group
  for take = first, last, 48 do
    local key, limit, _, _, mode, hits = unpack_numbers('<dddddd', groups, take)
    if mode == MODE_REFUND and unpack_numbers('<d', limits, limit * 40 - 39) == COUNTER then
      local count = read(KEYS[key]) or 0
      left[key] = count > 0 and call('DECRBY', KEYS[key], format(ONE, min(count, EXACT_MAX, hits))) or 0
      counter.is_charged[take] = true
    end
  end
  for take = first, last, 48 do
    local key, _, _, _, mode = unpack_numbers('<ddddd', groups, take)
    if mode == MODE_REFUND and counter.is_charged[take] then counter.count[take] = left[key] end
  end
end
