-- Fixed window: one count per clock-aligned window.
-- state     string "start_us current": start of the window, and its count
-- lifetime  until the window ends
-- Each function takes a state that `open` returned. No function here calls Redis: the entry scripts read and write.
local aligned_window = use('aligned_window')
local fixed_window = {
  pay = aligned_window.pay, undo = aligned_window.undo, post_pay = aligned_window.post_pay,
  paid_at_us = aligned_window.paid_at_us,
}

-- The state of the saved text (false: nothing is saved), advanced to now. Nil if the text is damaged.
function fixed_window.open(saved, limit, now_us)
  local aligned_us = aligned_window.start_us(now_us, limit)
  local start_us, current, is_redated = aligned_us, 0, false
  if saved then
    local start_text, current_text = string.match(saved, '^(%d+) (%d+)$')
    start_us, current = whole(start_text, EXACT_MAX), whole(current_text, AMOUNT_MAX)
    if not start_us or not current or start_us % limit.window_us ~= 0 then return nil end
  end
  if start_us > now_us then
    is_redated = start_us - now_us > limit.skew_us
    if is_redated then start_us = aligned_us end
  elseif start_us ~= aligned_us then
    start_us, current = aligned_us, 0
  end
  return {
    start_us = start_us, current = current, noted_current = current, is_changed = is_redated,
    limit = limit, lifetime_us = 0, group_at = 0,
  }
end

-- Start of the window in the saved text; nil if the text is damaged.
function fixed_window.time_of(saved)
  return whole(string.match(saved, '^(%d+) '), EXACT_MAX)
end

function fixed_window.judge(state, limit, cost, now_us)
  if cost > limit.amount then return OUTCOME_NEVER, 0 end
  if state.current + cost <= limit.amount then return OUTCOME_ROOM, 0 end
  return OUTCOME_OVER, state.start_us + limit.window_us - now_us
end

function fixed_window.refund(state, _, cost)
  state.current = max(0, state.current - cost)
end

function fixed_window.give_back(state, limit, cost, paid_at_us)
  if aligned_window.start_us(paid_at_us, limit) == state.start_us then
    state.current = max(0, state.current - cost)
  end
end

function fixed_window.remaining(state, limit)
  return max(0, limit.amount - state.current)
end

function fixed_window.reset_us(state, limit, now_us)
  if state.current == 0 then return 0 end
  return state.start_us + limit.window_us - now_us
end

-- Marks the state as changed if its count differs from the last note.
function fixed_window.note(state)
  if state.current == state.noted_current then return end
  state.noted_current, state.is_changed = state.current, true
end

function fixed_window.is_as_new(state)
  return state.current == 0
end

function fixed_window.text(state)
  return digits(state.start_us, state.current)
end

return fixed_window
