-- Sliding window: the count of the current clock-aligned window, plus the count of the previous one weighted by the part of it that a
-- window ending now still covers.
-- state     string "start_us current previous": start of the current window, its count, the count of the previous one
-- lifetime  until neither count has any weight
-- Each function takes a state that `open` returned. No function here calls Redis: the entry scripts read and write.
local aligned_window = use('aligned_window')
local sliding_window = {
  pay = aligned_window.pay, undo = aligned_window.undo, post_pay = aligned_window.post_pay,
  paid_at_us = aligned_window.paid_at_us,
}

-- Ticks since the start of the current window.
local function elapsed_ticks(state, limit, now_us)
  return max(0, floor((now_us - state.start_us) / limit.tick_us))
end

-- The state of the saved text (false: nothing is saved), advanced to now. Nil if the text is damaged.
function sliding_window.open(saved, limit, now_us)
  local aligned_us = aligned_window.start_us(now_us, limit)
  local start_us, current, previous, is_redated = aligned_us, 0, 0, false
  if saved then
    local start_text, current_text, previous_text = string.match(saved, '^(%d+) (%d+) (%d+)$')
    start_us, current, previous = whole(start_text, EXACT_MAX), whole(current_text, AMOUNT_MAX), whole(previous_text, AMOUNT_MAX)
    if not start_us or not current or not previous or start_us % limit.window_us ~= 0 then return nil end
  end
  if start_us > now_us then
    is_redated = start_us - now_us > limit.skew_us
    if is_redated then start_us = aligned_us end
  elseif start_us == aligned_us - limit.window_us then
    start_us, current, previous = aligned_us, 0, current
  elseif start_us ~= aligned_us then
    start_us, current, previous = aligned_us, 0, 0
  end
  return {
    start_us = start_us, current = current, previous = previous,
    noted_current = current, noted_previous = previous, is_changed = is_redated,
    limit = limit, lifetime_us = 0, group_at = 0,
  }
end

function sliding_window.judge(state, limit, cost, now_us)
  if cost > limit.amount then return OUTCOME_NEVER, 0 end
  local room = limit.amount - state.current - cost
  if state.previous * (TICKS - elapsed_ticks(state, limit, now_us)) <= room * TICKS then return OUTCOME_ROOM, 0 end
  local ticks
  if room >= 0 then
    ticks = TICKS - floor(room * TICKS / state.previous)
  else
    ticks = TICKS + max(0, TICKS - floor((limit.amount - cost) * TICKS / state.current))
  end
  return OUTCOME_OVER, state.start_us + ticks * limit.tick_us - now_us
end

function sliding_window.refund(state, _, cost)
  local from_current = min(cost, state.current)
  state.current = state.current - from_current
  state.previous = max(0, state.previous - (cost - from_current))
end

function sliding_window.give_back(state, limit, cost, paid_at_us)
  local paid_in_us = aligned_window.start_us(paid_at_us, limit)
  if paid_in_us == state.start_us then
    state.current = max(0, state.current - cost)
  elseif paid_in_us == state.start_us - limit.window_us then
    state.previous = max(0, state.previous - cost)
  end
end

function sliding_window.remaining(state, limit, now_us)
  local covered = state.previous * (TICKS - elapsed_ticks(state, limit, now_us))
  return max(0, floor(((limit.amount - state.current) * TICKS - covered) / TICKS))
end

function sliding_window.reset_us(state, limit, now_us)
  if state.current > 0 then return state.start_us + 2 * limit.window_us - now_us end
  if state.previous > 0 then return state.start_us + limit.window_us - now_us end
  return 0
end

-- Marks the state as changed if its counts differ from the last note.
function sliding_window.note(state)
  if state.current == state.noted_current and state.previous == state.noted_previous then return end
  state.noted_current, state.noted_previous, state.is_changed = state.current, state.previous, true
end

function sliding_window.is_as_new(state)
  return state.current == 0 and state.previous == 0
end

function sliding_window.text(state)
  return digits(state.start_us, state.current, state.previous)
end

return sliding_window
