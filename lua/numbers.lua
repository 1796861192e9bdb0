-- Numbers as text and back, and the clock, for take_all.lua and its modules. take_each.lua repeats them inline, because functions cost it
-- too much.

-- One, two or three whole numbers as decimal text, separated by blanks.
local function digits(one, two, three)
  if three then return string.format(THREE, one, two, three) end
  if two then return string.format(TWO, one, two) end
  return string.format(ONE, one)
end

-- The number in `text` (decimal digits, or nil); nil if there is none or it is above `largest`.
local function whole(text, largest)
  local number = text and tonumber(text)
  if number and number <= largest then return number end
  return nil
end

-- The call's time in microseconds, and the extra lifetime of keys in milliseconds. `given_us` 0 means the server's clock. A given clock
-- may run slower than the clock by which keys expire, so keys then live a minute longer.
local function read_clock(given_us)
  if given_us > 0 then return given_us, 60000 end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2]), 0
end
