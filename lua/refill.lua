-- The refill of a token bucket: `amount` millionths of a token return per tick of `tick_us` microseconds. The functions use no local of
-- the script: each shared local costs every call of a script.

-- 2^13. Products that could pass 2^53 are computed in two parts, as in src/engine/domain/limit.ts.
local HALF = 8192

-- Millionths that return in `us` microseconds, which are less than a tick. Rounded down.
local function refill_within_tick(us, amount, tick_us)
  if us * amount <= EXACT_MAX then return math.floor(us * amount / tick_us) end
  local per_us = math.floor(amount / tick_us)
  return us * per_us + math.floor(us * (amount - per_us * tick_us) / tick_us)
end

-- Microseconds until `debt` millionths have returned, rounded up, at most WAIT_US_MAX. `amount` must be above 0.
local function us_to_refill(debt, amount, tick_us)
  local ticks = math.floor(debt / amount)
  if ticks * tick_us >= WAIT_US_MAX then return WAIT_US_MAX end
  local rest = debt - ticks * amount
  if rest * tick_us <= EXACT_MAX then return math.min(WAIT_US_MAX, ticks * tick_us + math.ceil(rest * tick_us / amount)) end
  local high = math.floor(tick_us / HALF)
  local us = math.floor(rest * high / amount)
  local low = math.ceil(((rest * high - us * amount) * HALF + rest * (tick_us - high * HALF)) / amount)
  return math.min(WAIT_US_MAX, ticks * tick_us + us * HALF + low)
end
