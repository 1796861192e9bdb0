-- Calendar window: one count per calendar window. The limit brings the ends of windows by the caller's time zone data; the state
-- keeps the end that its window began with, as src/engine/algorithms/calendar-window.ts says.
-- state     three doubles: time of the first hit, count, and seconds from the second of the first hit to the end
-- lifetime  until the window ends
-- used      the count
-- at_us     time of the first hit
-- rest      the seconds
-- The limit's burst, seconds and debt_max are the start and the end of the caller's window and the end of the next one, in microseconds.

-- PIECE read
is_sound = #text == 24
if is_sound then at_us, used, rest = unpack_numbers('<ddd', text) end
is_sound = is_sound and at_us >= 0 and at_us <= EXACT_MAX and at_us % 1 == 0
  and used >= 0 and used <= AMOUNT_MAX and used % 1 == 0 and rest >= 0 and rest <= AMOUNT_MAX and rest % 1 == 0

-- PIECE advance
-- End of the window that contains now. Outside of the given edges, windows are as long as the nearest given one.
local end_us = seconds
if now_us < burst then
  end_us = burst - floor((burst - 1 - now_us) / (seconds - burst)) * (seconds - burst)
elseif now_us >= seconds then
  end_us = debt_max + (floor((now_us - debt_max) / (debt_max - seconds)) + 1) * (debt_max - seconds)
end
local own_end_us = (floor(at_us / TICKS) + rest) * TICKS
-- An unused window equals none, so a new one begins.
if used == 0 or now_us >= own_end_us then
  at_us, used, rest = now_us, 0, end_us / TICKS - floor(now_us / TICKS)
elseif at_us - now_us > SKEW_US_MAX or own_end_us - end_us > EDGE_SKEW_US_MAX then
  -- The count stays, so its payments still belong to the window and can be given back.
  at_us, is_redated = min(at_us, now_us), true
  rest = end_us / TICKS - floor(at_us / TICKS)
end

-- PIECE judge
if cost > amount then
  outcome = OUTCOME_NEVER
elseif used + cost > amount then
  outcome, wait_us = OUTCOME_OVER, (floor(at_us / TICKS) + rest) * TICKS - now_us
end

-- PIECE give_back
if mode == MODE_REFUND or paid_at_us >= at_us then used = max(0, used - cost) end

-- PIECE report
remaining = amount - used
if used > 0 then reset_us = (floor(at_us / TICKS) + rest) * TICKS - now_us end

-- PIECE write
if used > 0 then text = pack_numbers('<ddd', at_us, used, rest) end
