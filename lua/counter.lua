-- Counters as envoyproxy/ratelimit keeps them, so that both services count together: one integer per window, under a key that contains
-- the window. Each counter is charged whatever the verdict is; the other takes of the group are settled afterwards.
-- state     string, an integer; the key contains its window
-- lifetime  given by the caller (`debt_max` of the limit, in seconds), renewed by every charge
-- Unlike the other algorithms this one calls Redis, because a count may be larger than Lua numbers represent exactly.
local counter = {}

local COUNT_MAX, COUNT_MAX_TEXT = 9223372036854775807, '9223372036854775807'

-- Charges hits; returns the new count, or nil if the key holds no count. A count that would overflow becomes COUNT_MAX.
local function counter_add(key, hits, lifetime_s)
  local count = redis.pcall('INCRBY', key, hits < COUNT_MAX and digits(hits) or COUNT_MAX_TEXT)
  if type(count) == 'table' and string.find(count.err, 'overflow') then
    redis.call('SET', key, COUNT_MAX_TEXT)
    count = COUNT_MAX
  end
  redis.call('EXPIRE', key, digits(lifetime_s))
  if type(count) == 'table' or count < 0 then return nil end
  return count
end

-- The current count: 0 if the key does not exist, nil if it holds something else.
local function counter_read(key)
  local text = redis.pcall('GET', key)
  if not text then return 0 end
  if type(text) == 'table' or not string.find(text, '^%d+$') then return nil end
  return tonumber(text)
end

-- In the functions below, the takes of a group begin at `groups[first]`, six numbers each.

-- Which counters may be charged by a call that charges only counters that are over, by take: none if the local cache denied one, else
-- those that are over, or all (nil) if none is over. The first result is false if a key holds no count.
local function counter_choice(groups, limits, first, size)
  for at = first, first + size * 6 - 6, 6 do
    if groups[at + 4] == MODE_DENIED then return true, {} end
  end
  local over, has_over = {}, false
  for take = 1, size do
    local at = first + take * 6 - 6
    if groups[at + 4] == MODE_CHARGE then
      local count = counter_read(KEYS[groups[at]])
      if not count then return false end
      over[take] = count + groups[at + 5] > limits[groups[at + 1]].amount
      has_over = has_over or over[take]
    end
  end
  return true, has_over and over or nil
end

-- Charges the counters among the `size` takes of a group. Writes into `found`, by take, the outcome, the count and whether it was
-- charged. False if a key holds no count; unless `stops_at_over`, the other counters are charged then too.
function counter.charge_all(groups, limits, first, size, stops_at_over, found)
  local is_sound, choice = true, nil
  if stops_at_over then
    is_sound, choice = counter_choice(groups, limits, first, size)
    if not is_sound then return false end
  end
  for take = 1, size do
    local at = first + take * 6 - 6
    local mode, limit = groups[at + 4], limits[groups[at + 1]]
    if mode == MODE_CHARGE then
      local is_charged = not choice or choice[take]
      local count = counter_add(KEYS[groups[at]], is_charged and groups[at + 5] or 0, limit.debt_max)
      is_sound = is_sound and count ~= nil
      found.count[take], found.is_charged[take] = count or 0, is_charged
      found.outcome[take] = found.count[take] > limit.amount and OUTCOME_OVER or OUTCOME_ROOM
    elseif mode == MODE_DENIED then
      found.count[take], found.is_charged[take], found.outcome[take] = limit.amount, false, OUTCOME_OVER
    end
  end
  return is_sound
end

-- Gives hits back; the count does not fall below 0, and a missing counter is not created. Returns the new count.
function counter.refund(key, hits)
  local count = counter_read(key)
  if not count or count == 0 then return 0 end
  return redis.call('DECRBY', key, count < EXACT_MAX and digits(min(count, hits)) or digits(min(EXACT_MAX, hits)))
end

return counter
