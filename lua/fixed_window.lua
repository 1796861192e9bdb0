-- Fixed window: one count per clock-aligned window. Windows are aligned to the Unix epoch, so all processes and all stores agree on them.
-- state     two doubles: start of the window, and its count
-- lifetime  until the window ends
-- used      the count
-- at_us     start of the window

-- PIECE read
is_sound = #text == 16
if is_sound then at_us, used = unpack_numbers('<dd', text) end
is_sound = is_sound and at_us >= 0 and at_us <= EXACT_MAX and at_us % (seconds * TICKS) == 0
  and used >= 0 and used <= AMOUNT_MAX and used % 1 == 0

-- PIECE advance
local window_us = seconds * TICKS
local aligned_us = floor(now_us / window_us) * window_us
if at_us > now_us then
  is_redated = at_us - now_us > min(window_us, SKEW_US_MAX)
  if is_redated then at_us = aligned_us end
elseif at_us ~= aligned_us then
  at_us, used = aligned_us, 0
end

-- PIECE judge
if cost > amount then
  outcome = OUTCOME_NEVER
elseif used + cost > amount then
  outcome, wait_us = OUTCOME_OVER, at_us + seconds * TICKS - now_us
end

-- PIECE give_back
if mode == MODE_REFUND or floor(paid_at_us / (seconds * TICKS)) * seconds * TICKS == at_us then used = max(0, used - cost) end

-- PIECE report
remaining = amount - used
if used > 0 then reset_us = at_us + seconds * TICKS - now_us end

-- PIECE write
if used > 0 then text = pack_numbers('<dd', at_us, used) end
