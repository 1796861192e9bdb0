-- What fixed and sliding windows have in common: where clock-aligned windows begin, and how one is counted in. Aligned to
-- the Unix epoch, so that all processes and all stores agree.
-- Each function takes the state as `open` made it; nothing here calls Redis, the entry scripts read and write.
local aligned_window = {}

-- Start of the window that holds `at_us`.
function aligned_window.start_us(at_us, limit)
  return floor(at_us / limit.window_us) * limit.window_us
end

function aligned_window.pay(state, cost)
  state.current = state.current + cost
end

function aligned_window.undo(state, cost)
  state.current = state.current - cost
end

-- Counts past the limit; returns the hits that no count can hold.
function aligned_window.post_pay(state, _, cost)
  local excess = max(0, state.current + cost - AMOUNT_MAX)
  state.current = state.current + cost - excess
  return excess
end

-- A payment is dated in the state's window even if the clock stepped back behind it.
function aligned_window.paid_at_us(state, now_us)
  return max(now_us, state.start_us)
end

return aligned_window
