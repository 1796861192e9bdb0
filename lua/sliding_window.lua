-- Sliding window: the count of the current clock-aligned window, plus the count of the previous one weighted by the part of it that a
-- window ending now still covers.
-- state     three doubles: start of the current window, its count, the count of the previous one
-- lifetime  until neither count has any weight
-- used      the count of the current window
-- at_us     its start
-- rest      the count of the previous window

-- PIECE read
is_sound = #text == 24
if is_sound then at_us, used, rest = unpack_numbers('<ddd', text) end
is_sound = is_sound and at_us >= 0 and at_us <= EXACT_MAX and at_us % (seconds * TICKS) == 0
  and used >= 0 and used <= AMOUNT_MAX and used % 1 == 0 and rest >= 0 and rest <= AMOUNT_MAX and rest % 1 == 0

-- PIECE advance
local window_us = seconds * TICKS
local aligned_us = floor(now_us / window_us) * window_us
if at_us > now_us then
  is_redated = at_us - now_us > min(window_us, SKEW_US_MAX)
  if is_redated then at_us = aligned_us end
elseif at_us == aligned_us - window_us then
  at_us, used, rest = aligned_us, 0, used
elseif at_us ~= aligned_us then
  at_us, used, rest = aligned_us, 0, 0
end

-- PIECE covered
-- The weighted count of the previous window, in millionths. A tick has as many microseconds as the window has seconds.
local covered = rest * (TICKS - max(0, floor((now_us - at_us) / seconds)))

-- PIECE judge
-- INSERT covered
local room = amount - used - cost
if cost > amount then
  outcome = OUTCOME_NEVER
elseif covered > room * TICKS then
  local ticks
  if room >= 0 then
    ticks = TICKS - floor(room * TICKS / rest)
  else
    ticks = TICKS + max(0, TICKS - floor((amount - cost) * TICKS / used))
  end
  outcome, wait_us = OUTCOME_OVER, at_us + ticks * seconds - now_us
end

-- PIECE give_back
local current, previous = 0, 0 -- what is given back of each count
if mode == MODE_REFUND then
  current, previous = min(cost, used), max(0, cost - used)
else
  local paid_in_us = floor(paid_at_us / (seconds * TICKS)) * seconds * TICKS
  if paid_in_us == at_us then current = cost elseif paid_in_us == at_us - seconds * TICKS then previous = cost end
end
if min(previous, rest) > 0 then rest, working[slot + OPENED] = max(0, rest - previous), CHANGED end
used = max(0, used - current)

-- PIECE report
-- INSERT covered
remaining = floor(((amount - used) * TICKS - covered) / TICKS)
if used > 0 or rest > 0 then reset_us = at_us + (used > 0 and 2 or 1) * seconds * TICKS - now_us end

-- PIECE write
if used > 0 or rest > 0 then text = pack_numbers('<ddd', at_us, used, rest) end
