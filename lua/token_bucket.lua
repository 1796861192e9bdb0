-- Token bucket: spending is a debt that `amount` tokens per window pay off. A cost has room while debt + cost <= burst.
-- state     two doubles: debt in millionths of a token, and the time up to which whole ticks were paid off; no state: no debt
-- lifetime  until the debt is paid off
-- used      the debt
-- rest      refill of the part of a tick since at_us, in millionths; the debt at now is used - rest
-- A tick has as many microseconds as the window has seconds, and pays off `amount` millionths. The refill of the part of a tick is
-- counted wherever the debt is read, so nothing comes late or is rounded away.

-- 2^13. Products that could pass 2^53 are computed in two parts, as in src/engine/domain/limit.ts.
local HALF = 8192

-- PIECE read
is_sound = #text == 16
if is_sound then used, at_us = unpack_numbers('<dd', text) end
is_sound = is_sound and used >= 0 and used <= EXACT_MAX and used % 1 == 0 and at_us >= 0 and at_us <= EXACT_MAX and at_us % 1 == 0

-- PIECE advance
if at_us > now_us then
  is_redated = at_us - now_us > min(seconds * TICKS, SKEW_US_MAX)
  if is_redated then at_us = now_us end
else
  local ticks = floor((now_us - at_us) / seconds)
  if amount > 0 and ticks >= ceil(used / amount) then
    used = 0
  else
    used, at_us = used - ticks * amount, at_us + ticks * seconds
  end
end
local us, refill = now_us - at_us, 0
if used > 0 and us > 0 then
  -- INSERT refill
end
rest = refill
-- INSERT fill

-- PIECE refill
-- Sets `refill` to the millionths that return in `us`, which is less than a tick; rounded down.
if us * amount <= EXACT_MAX then
  refill = floor(us * amount / seconds)
else
  local per_us = floor(amount / seconds)
  refill = us * per_us + floor(us * (amount - per_us * seconds) / seconds)
end

-- PIECE wait
-- Sets `us` to the microseconds from now until `debt` has returned, rounded up, at most WAIT_US_MAX; to a window if nothing returns.
local us = WAIT_US_MAX
if amount == 0 then
  us = seconds * TICKS
else
  local ticks = floor(debt / amount)
  if ticks * seconds < WAIT_US_MAX then
    local part = debt - ticks * amount
    if part * seconds <= EXACT_MAX then
      us = ceil(part * seconds / amount)
    else
      local high = floor(seconds / HALF)
      local high_us = floor(part * high / amount)
      us = high_us * HALF + ceil(((part * high - high_us * amount) * HALF + part * (seconds - high * HALF)) / amount)
    end
    us = ticks * seconds + us
    us = us < WAIT_US_MAX and min(WAIT_US_MAX, us + at_us - now_us) or WAIT_US_MAX
  end
end

-- PIECE fill
-- Makes a bucket without debt a full one, to which nothing returns: its time begins now.
if used <= rest then used, at_us, rest = 0, max(at_us, now_us), 0 end

-- PIECE judge
local excess = used + cost * TICKS - burst * TICKS
if cost > burst then
  outcome = OUTCOME_NEVER
elseif excess > rest then
  local debt = excess
  -- INSERT wait
  outcome, wait_us = OUTCOME_OVER, us
end

-- PIECE give_back
local debt = mode == MODE_TAKE_OFF and cost or cost * TICKS
if mode == MODE_GIVE_BACK and now_us > paid_at_us and amount > 0 then
  -- Refill since the payment is not given back: without the payment the bucket may have been full, and would have got no refill.
  local ticks, refill = floor((now_us - paid_at_us) / seconds), 0
  local us = now_us - paid_at_us - ticks * seconds
  -- INSERT refill
  debt = debt - ticks * amount - refill - 1
end
if debt > 0 then
  used = max(0, used - debt)
  -- INSERT fill
end

-- PIECE report
remaining = floor((burst * TICKS - (used - rest)) / TICKS)
if used > 0 then
  local debt = used
  -- INSERT wait
  reset_us = us
end

-- PIECE write
if used > 0 then text = pack_numbers('<dd', used, at_us) end
