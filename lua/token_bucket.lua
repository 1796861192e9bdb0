-- Token bucket: spending is a debt that `amount` tokens per window pay off. A cost has room while debt + cost <= burst.
-- state     string "debt at_us": debt in millionths of a token, and the time up to which whole ticks were paid off; no state: no debt
-- lifetime  until the debt is paid off
-- A tick has as many microseconds as the window has seconds, and pays off `amount` millionths. The refill of the part of a tick since
-- at_us is counted wherever the debt is read, so nothing comes late or is rounded away.
-- Each function takes a state that `open` returned. No function here calls Redis: the entry scripts read and write.
local token_bucket = { lasts_by_rate = true } -- the lifetime depends on the rate and not on a window

-- Millionths that return in `us` microseconds, rounded down.
local function refill_of(us, limit)
  local ticks = floor(us / limit.tick_us)
  return ticks * limit.amount + refill_within_tick(us - ticks * limit.tick_us, limit.amount, limit.tick_us)
end

-- Refill of the part of a tick since at_us, in millionths.
local function paid_off(state, limit, now_us)
  return now_us > state.at_us and refill_within_tick(now_us - state.at_us, limit.amount, limit.tick_us) or 0
end

-- Makes a bucket without debt a full one, to which nothing returns: its time begins now.
local function fill_if_paid_off(state, limit, now_us)
  if state.debt > paid_off(state, limit, now_us) then return end
  state.debt, state.at_us = 0, max(state.at_us, now_us)
end

-- Brings the kept state to now, under `limit`.
local function advance(state, limit, now_us)
  state.debt, state.at_us = state.kept_debt, state.kept_at_us
  state.is_redated = state.at_us - now_us > limit.skew_us
  if state.is_redated then state.at_us = now_us end
  local ticks = now_us > state.at_us and floor((now_us - state.at_us) / limit.tick_us) or 0
  if limit.amount > 0 and ticks >= ceil(state.debt / limit.amount) then
    state.debt = 0
  else
    state.debt, state.at_us = state.debt - ticks * limit.amount, state.at_us + ticks * limit.tick_us
  end
  fill_if_paid_off(state, limit, now_us)
  state.noted_debt = state.debt
end

-- The state of the saved text (false: nothing is saved), advanced to now. Nil if the text is damaged.
function token_bucket.open(saved, limit, now_us)
  local debt, at_us = 0, now_us
  if saved then
    local debt_text, at_text = string.match(saved, '^(%d+) (%d+)$')
    debt, at_us = whole(debt_text, EXACT_MAX), whole(at_text, EXACT_MAX)
    if not debt or not at_us then return nil end
  end
  -- The kept values are those that were saved, or that the last group with a change left. The others belong to the current group.
  local state = { kept_debt = debt, kept_at_us = at_us, limit = limit, lifetime_us = 0, group_at = 0 }
  advance(state, limit, now_us)
  return state
end

-- at_us of the saved text; nil if the text is damaged.
function token_bucket.time_of(saved)
  return whole(string.match(saved, '^%d+ (%d+)$'), EXACT_MAX)
end

-- Reuses the state in another group, perhaps under another limit, as if it had been saved and read again.
function token_bucket.reopen(state, from, now_us)
  if from ~= state.limit or state.is_handed_over then advance(state, state.limit, now_us) end
  state.is_handed_over = false
end

-- Counts the part of a tick under `from`, so that the state can go on under another limit.
function token_bucket.hand_over(state, from, now_us)
  local debt = paid_off(state, from, now_us)
  state.debt, state.noted_debt = state.debt - debt, state.noted_debt - debt
  state.at_us = max(state.at_us, now_us)
  state.is_handed_over = true
end

-- Microseconds until `debt` millionths have returned; a window's length if the limit has no refill.
local function us_until_paid_off(debt, state, limit, now_us)
  if limit.amount == 0 then return limit.window_us end
  local us = us_to_refill(debt, limit.amount, limit.tick_us)
  return us == WAIT_US_MAX and us or min(WAIT_US_MAX, us + state.at_us - now_us)
end

function token_bucket.judge(state, limit, cost, now_us)
  if cost > limit.burst then return OUTCOME_NEVER, 0 end
  local excess = state.debt + cost * TICKS - limit.burst * TICKS
  if excess <= paid_off(state, limit, now_us) then return OUTCOME_ROOM, 0 end
  return OUTCOME_OVER, us_until_paid_off(excess, state, limit, now_us)
end

function token_bucket.pay(state, cost)
  state.debt = state.debt + cost * TICKS
end

function token_bucket.undo(state, cost)
  state.debt = state.debt - cost * TICKS
end

-- Pays up to the largest debt; returns the tokens that were not recorded. A larger debt (after an edit) stays.
function token_bucket.post_pay(state, limit, cost, now_us)
  local debt_max = limit.debt_max * TICKS + paid_off(state, limit, now_us)
  if state.debt > debt_max then return cost end
  local excess = max(0, state.debt + cost * TICKS - debt_max)
  state.debt = state.debt + cost * TICKS - excess
  return ceil(excess / TICKS)
end

-- The debt at now_us in millionths of a token, rounded up.
function token_bucket.debt(state, limit, now_us)
  return state.debt - paid_off(state, limit, now_us)
end

local function take_off(state, limit, debt, now_us)
  state.debt = max(0, state.debt - debt)
  fill_if_paid_off(state, limit, now_us)
end

token_bucket.take_off = take_off

function token_bucket.refund(state, limit, cost, now_us)
  take_off(state, limit, cost * TICKS, now_us)
end

-- Refill since the payment is not given back: without the payment the bucket may have been full, and would have got no refill.
function token_bucket.give_back(state, limit, cost, paid_at_us, now_us)
  local debt = cost * TICKS
  if now_us > paid_at_us and limit.amount > 0 then debt = debt - refill_of(now_us - paid_at_us, limit) - 1 end
  if debt > 0 then take_off(state, limit, debt, now_us) end
end

function token_bucket.paid_at_us(state, now_us)
  return max(now_us, state.at_us)
end

function token_bucket.remaining(state, limit, now_us)
  return max(0, floor((limit.burst * TICKS - (state.debt - paid_off(state, limit, now_us))) / TICKS))
end

function token_bucket.reset_us(state, limit, now_us)
  if state.debt == 0 then return 0 end
  return us_until_paid_off(state.debt, state, limit, now_us)
end

-- Keeps the state if it differs from the last note. Refill by time alone is no change.
function token_bucket.note(state)
  if state.debt == state.noted_debt and not state.is_redated then return end
  state.noted_debt, state.is_redated, state.is_changed = state.debt, false, true
  state.kept_debt, state.kept_at_us = state.debt, state.at_us
end

function token_bucket.is_as_new(state)
  return state.kept_debt == 0
end

function token_bucket.text(state)
  return digits(state.kept_debt, state.kept_at_us)
end

return token_bucket
