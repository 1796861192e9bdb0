-- Numbers as text and back, and the clock, as take_all.lua and its modules use them; take_each.lua has no room for functions.

-- One, two or three whole numbers as text, with blanks between them.
local function digits(one, two, three)
  if three then return string.format(THREE, one, two, three) end
  if two then return string.format(TWO, one, two) end
  return string.format(ONE, one)
end

-- The number that `text`, digits or nil, writes, or nil if it is no whole number from 0 to `largest`.
local function whole(text, largest)
  local number = text and tonumber(text)
  if number and number <= largest then return number end
  return nil
end

-- The call's time in microseconds, and how much longer than needed keys live, in milliseconds. A time of 0 is the server's
-- own; a given one may run slower than the one that keys expire by.
local function read_clock(given_us)
  if given_us > 0 then return given_us, 60000 end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2]), 0
end
