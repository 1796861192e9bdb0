-- What fixed and sliding windows share: where windows begin, and how costs are counted in one. Windows are aligned to the Unix epoch, so
-- all processes and all stores agree on them. Calendar windows share the counting.
-- Each function takes a state that `open` returned. No function here calls Redis: the entry scripts read and write.
local aligned_window = {}

-- Start of the window that contains `at_us`.
function aligned_window.start_us(at_us, limit)
  return floor(at_us / limit.window_us) * limit.window_us
end

function aligned_window.pay(state, cost)
  state.current = state.current + cost
end

function aligned_window.undo(state, cost)
  state.current = state.current - cost
end

-- Counts beyond the limit, up to AMOUNT_MAX; returns the hits that were not counted.
function aligned_window.post_pay(state, _, cost)
  local excess = max(0, state.current + cost - AMOUNT_MAX)
  state.current = state.current + cost - excess
  return excess
end

-- A payment is dated in the state's window even if the clock stepped back before that window.
function aligned_window.paid_at_us(state, now_us)
  return max(now_us, state.start_us)
end

return aligned_window
