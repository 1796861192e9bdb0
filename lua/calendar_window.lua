-- Calendar window: one count per window of a calendar. The limit brings the ends of windows by the caller's time zone data; the state
-- keeps the end that its window began with, as src/engine/algorithms/calendar-window.ts says.
-- state     string "start_us current seconds": time of the first hit, count, and seconds from the second of the first hit to the end
-- lifetime  until the window ends
-- Each function takes a state that `open` returned. No function here calls Redis: the entry scripts read and write.
local aligned_window = use('aligned_window')
local calendar_window = {
  pay = aligned_window.pay, undo = aligned_window.undo, post_pay = aligned_window.post_pay,
  paid_at_us = aligned_window.paid_at_us,
}

-- Brings the state to now. An unused window equals none, so it begins anew.
local function advance(state, limit, now_us)
  local end_us = calendar_end_us(now_us, limit.start_us, limit.end_us, limit.next_end_us)
  if state.current == 0 or now_us >= state.end_us then
    state.start_us, state.end_us, state.current = now_us, end_us, 0
  elseif state.start_us - now_us > SKEW_US_MAX or state.end_us - end_us > EDGE_SKEW_US_MAX then
    -- The count stays, so its payments still belong to the window and can be given back.
    state.start_us, state.end_us, state.is_changed = min(state.start_us, now_us), end_us, true
  end
  state.noted_current = state.current
end

-- The state of the saved text (false: nothing is saved), advanced to now. Nil if the text is damaged.
function calendar_window.open(saved, limit, now_us)
  local state = {
    start_us = 0, end_us = 0, current = 0, is_changed = false,
    limit = limit, lifetime_us = 0, group_at = 0,
  }
  if saved then
    local start_text, current_text, seconds_text = string.match(saved, '^(%d+) (%d+) (%d+)$')
    state.start_us, state.current = whole(start_text, EXACT_MAX), whole(current_text, AMOUNT_MAX)
    local seconds = whole(seconds_text, AMOUNT_MAX)
    if not state.start_us or not state.current or not seconds then return nil end
    state.end_us = (floor(state.start_us / TICKS) + seconds) * TICKS
  end
  advance(state, limit, now_us)
  return state
end

-- Reuses the state in another group, perhaps under another limit, as if it had been saved and read again.
function calendar_window.reopen(state, _, now_us)
  advance(state, state.limit, now_us)
end

-- Time of the first hit in the saved text; nil if the text is damaged.
function calendar_window.time_of(saved)
  return whole(string.match(saved, '^(%d+) '), EXACT_MAX)
end

function calendar_window.judge(state, limit, cost, now_us)
  if cost > limit.amount then return OUTCOME_NEVER, 0 end
  if state.current + cost <= limit.amount then return OUTCOME_ROOM, 0 end
  return OUTCOME_OVER, state.end_us - now_us
end

function calendar_window.refund(state, _, cost)
  state.current = max(0, state.current - cost)
end

function calendar_window.give_back(state, _, cost, paid_at_us)
  if paid_at_us >= state.start_us then state.current = max(0, state.current - cost) end
end

function calendar_window.remaining(state, limit)
  return max(0, limit.amount - state.current)
end

function calendar_window.reset_us(state, _, now_us)
  if state.current == 0 then return 0 end
  return state.end_us - now_us
end

-- Marks the state as changed if its count differs from the last note.
function calendar_window.note(state)
  if state.current == state.noted_current then return end
  state.noted_current, state.is_changed = state.current, true
end

function calendar_window.is_as_new(state)
  return state.current == 0
end

function calendar_window.text(state)
  return digits(state.start_us, state.current, state.end_us / TICKS - floor(state.start_us / TICKS))
end

return calendar_window
