-- Prelude: numbers and helpers that the algorithms and the entry scripts share. scripts.ts puts it in front of them.
-- All numbers are whole and stay below 2^53, where doubles are exact. Times are microseconds of the server's clock.
-- Never `tostring` or `..` a number: both keep 14 digits and a time has 16. `digits` keeps them all.
-- Arguments and reply hold numbers as doubles, least significant byte first: a tenth of the work that digits are. State is
-- text, which people can read.

-- Words of the protocol with src/core/take.ts.
local KIND_ORDINARY, KIND_QUOTA = 0, 1
local MODE_PAY, MODE_PEEK, MODE_REFUND, MODE_POST_PAID, MODE_CHARGE, MODE_DENIED, MODE_SETTLE = 0, 1, 2, 3, 4, 5, 6
local OUTCOME_ROOM, OUTCOME_OVER, OUTCOME_NEVER = 1, 2, 3
local VERDICT_ALLOWED, VERDICT_REFUSED, VERDICT_TOO_LATE, VERDICT_NO_COUNT, VERDICT_HOLDS_FULL = 1, 2, 3, 4, 6

local TICKS = 1000000 -- in one window; as millionths, also in one token
local AMOUNT_MAX = 4294967295
local EXACT_MAX = 9007199254740991
local SKEW_US_MAX = 10000000 -- state dated later than now by more than this is taken as dated now
local EDGE_SKEW_US_MAX = 93600000000 -- an end of a calendar window later than the caller's by more than 26 hours is not believed
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

-- The number that `text`, digits or nil, writes, or nil if it is no whole number from 0 to `largest`.
local function whole(text, largest)
  local number = text and tonumber(text)
  if number and number <= largest then return number end
  return nil
end

-- End of the window of a calendar that holds `at_us`, by the edges that the caller handed over. Beyond them windows are as long
-- as the nearest.
local function calendar_end_us(at_us, start_us, end_us, next_end_us)
  if at_us < start_us then return start_us - floor((start_us - 1 - at_us) / (end_us - start_us)) * (end_us - start_us) end
  if at_us < end_us then return end_us end
  return next_end_us + (floor((at_us - next_end_us) / (next_end_us - end_us)) + 1) * (next_end_us - end_us)
end

-- The call's time in microseconds, and how much longer than needed keys live, in milliseconds. A time of 0 is the server's
-- own; a given one may run slower than the one that keys expire by.
local function read_clock(given_us)
  if given_us > 0 then return given_us, 60000 end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2]), 0
end
