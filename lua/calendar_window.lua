-- Calendar window: counts within one window of a calendar and forgets at its end. The limit hands over where windows end by the
-- caller's zone data; the state keeps the end that it began with, as src/algorithms/calendar-window.ts says.
-- state     string "start_us current seconds": its first hit, and the seconds from the second of that until it ends
-- lifetime  until the window ends
-- Each function takes the state as `open` made it; nothing here calls Redis, the entry scripts read and write.
local aligned_window = use('aligned_window')
local calendar_window = {
  pay = aligned_window.pay, undo = aligned_window.undo, post_pay = aligned_window.post_pay,
  paid_at_us = aligned_window.paid_at_us,
}

-- Brings the state to now. A window in which nothing is used is as good as none.
local function advance(state, limit, now_us)
  local end_us = calendar_end_us(now_us, limit.start_us, limit.end_us, limit.next_end_us)
  if state.current == 0 or now_us >= state.end_us then
    state.start_us, state.end_us, state.current = now_us, end_us, 0
  elseif state.start_us - now_us > SKEW_US_MAX or state.end_us - end_us > EDGE_SKEW_US_MAX then
    state.start_us, state.end_us, state.is_changed = now_us, end_us, true
  end
  state.noted_current = state.current
end

-- State from what is saved (false: nothing), advanced to now. Nil if the text is nonsense.
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

-- Has the state go on in another group, perhaps under another limit, as if it had been saved and read.
function calendar_window.reopen(state, _, now_us)
  advance(state, state.limit, now_us)
end

-- When the window of what is saved began; nil if that is nonsense.
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

-- Marks the state as changed if it is not what it was when last noted.
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
