-- Prelude: numbers and helpers that the algorithms and take_all.lua share. scripts.ts puts it in front of them.
-- All numbers are whole and stay below 2^53, where doubles are exact. Times are microseconds of the server's clock.
-- Never `tostring` or `..` a number: both keep 14 digits and a time has 16. `digits` keeps them all.

-- Words of the protocol with src/core/take.ts.
local KIND_ORDINARY, KIND_QUOTA = 0, 1
local MODE_PAY, MODE_PEEK, MODE_REFUND, MODE_POST_PAID, MODE_CHARGE, MODE_DENIED = 0, 1, 2, 3, 4, 5
local OUTCOME_ROOM, OUTCOME_OVER, OUTCOME_NEVER = 1, 2, 3
local VERDICT_ALLOWED, VERDICT_REFUSED, VERDICT_TOO_LATE, VERDICT_NO_COUNT = 1, 2, 3, 4

local TICKS = 1000000 -- in one window; as millionths, also in one token
local AMOUNT_MAX = 4294967295
local EXACT_MAX = 9007199254740991
local SKEW_US_MAX = 10000000 -- state dated later than now by more than this is taken as dated now
local LIFETIME_MS_MAX = 315360000000 -- ten years: keeps PX within what Redis accepts

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

local function digits(number)
  return string.format('%.0f', number)
end

-- The number that `text` writes in plain digits, or nil if it is no whole number from 0 to `largest`.
local function whole(text, largest)
  if not text or #text > 16 or string.find(text, '%D') then return nil end
  local number = tonumber(text)
  if number and number <= largest then return number end
  return nil
end

-- Ticks from now until an event that lies `ticks` after `origin_us`; rounds up.
local function ticks_until(ticks, origin_us, limit, now_us)
  return ticks + ceil((origin_us - now_us) / limit.tick_us)
end
