-- How a token bucket's debt is paid off: `amount` millionths of a token return in each tick of `tick_us` microseconds. The functions
-- share no local with anybody: each call of a script would pay for it.

-- Half of a window's 25 bits: products are taken apart to stay below 2^53, as src/core/refill.ts does it.
local HALF = 8192

-- Millionths that return in `us`, less than a tick; rounded down.
local function refill_within_tick(us, amount, tick_us)
  if us * amount <= EXACT_MAX then return math.floor(us * amount / tick_us) end
  local per_us = math.floor(amount / tick_us)
  return us * per_us + math.floor(us * (amount - per_us * tick_us) / tick_us)
end

-- Microseconds until so many millionths have returned, rounded up.
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
