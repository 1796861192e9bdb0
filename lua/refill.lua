-- How a token bucket's debt is paid off: `amount` millionths of a token return in each tick of `tick_us` microseconds.

-- Half of a window's 25 bits: products are taken apart to stay below 2^53, as src/core/refill.ts does it.
local HALF = 8192

-- Millionths that return in `us`, less than a tick; rounded down.
local function refill_within_tick(us, amount, tick_us)
  if us * amount <= EXACT_MAX then return floor(us * amount / tick_us) end
  local per_us = floor(amount / tick_us)
  return us * per_us + floor(us * (amount - per_us * tick_us) / tick_us)
end

-- Microseconds until so many millionths have returned, rounded up.
local function us_to_refill(debt, amount, tick_us)
  local ticks = floor(debt / amount)
  if ticks * tick_us >= WAIT_US_MAX then return WAIT_US_MAX end
  local rest = debt - ticks * amount
  if rest * tick_us <= EXACT_MAX then return min(WAIT_US_MAX, ticks * tick_us + ceil(rest * tick_us / amount)) end
  local high = floor(tick_us / HALF)
  local us = floor(rest * high / amount)
  local low = ceil(((rest * high - us * amount) * HALF + rest * (tick_us - high * HALF)) / amount)
  return min(WAIT_US_MAX, ticks * tick_us + us * HALF + low)
end
