-- Token bucket: spending is a debt that `amount` tokens per window pay off; room while debt + cost fits the burst.
-- state     string "debt at_us": debt in millionths of a token, counted off up to at_us; absent means no debt
-- lifetime  until the debt is paid off
-- Each function takes the state as `open` made it; nothing here calls Redis, take_all.lua reads and writes.
local token_bucket = {}

-- State from what is saved (false: nothing), advanced to now. Nil if the text is nonsense.
function token_bucket.open(saved, limit, now_us)
  local debt, at_us = 0, now_us
  if saved then
    local debt_text, at_text = string.match(saved, '^(%d+) (%d+)$')
    debt, at_us = whole(debt_text, EXACT_MAX), whole(at_text, EXACT_MAX)
    if not debt or not at_us then return nil end
  end
  local is_redated = at_us - now_us > limit.skew_us
  if is_redated then at_us = now_us end
  local passed = now_us > at_us and floor((now_us - at_us) / limit.tick_us) or 0
  if limit.amount > 0 and passed >= ceil(debt / limit.amount) then
    debt, at_us = 0, max(at_us, now_us)
  else
    debt, at_us = debt - passed * limit.amount, at_us + passed * limit.tick_us
  end
  if debt == 0 then at_us = max(at_us, now_us) end
  return {
    debt = debt, at_us = at_us, noted_debt = debt, is_changed = is_redated,
    limit = limit, lifetime_us = 0, group_at = 0,
  }
end

function token_bucket.judge(state, limit, cost, now_us)
  if cost > limit.burst then
    return OUTCOME_NEVER, limit.amount > 0 and ceil(limit.burst * TICKS / limit.amount) or TICKS
  end
  local excess = state.debt + cost * TICKS - limit.burst * TICKS
  if excess <= 0 then return OUTCOME_ROOM, 0 end
  if limit.amount == 0 then return OUTCOME_OVER, TICKS end
  return OUTCOME_OVER, ticks_until(ceil(excess / limit.amount), state.at_us, limit, now_us)
end

function token_bucket.pay(state, cost)
  state.debt = state.debt + cost * TICKS
end

function token_bucket.undo(state, cost)
  state.debt = state.debt - cost * TICKS
end

-- Pays up to the largest debt; returns the tokens that did not fit. A debt already larger stays as it is.
function token_bucket.post_pay(state, limit, cost)
  local debt_max = limit.debt_max * TICKS
  if state.debt > debt_max then return cost end
  local excess = max(0, state.debt + cost * TICKS - debt_max)
  state.debt = state.debt + cost * TICKS - excess
  return ceil(excess / TICKS)
end

function token_bucket.refund(state, cost)
  state.debt = max(0, state.debt - cost * TICKS)
end

function token_bucket.give_back(state, cost)
  token_bucket.refund(state, cost)
end

function token_bucket.paid_at_us(state, now_us)
  return max(now_us, state.at_us)
end

function token_bucket.remaining(state, limit)
  return max(0, floor((limit.burst * TICKS - state.debt) / TICKS))
end

function token_bucket.reset_ticks(state, limit, now_us)
  if state.debt == 0 then return 0 end
  if limit.amount == 0 then return TICKS end
  return ticks_until(ceil(state.debt / limit.amount), state.at_us, limit, now_us)
end

-- Marks the state as changed if it is not what it was when last noted.
function token_bucket.note(state)
  if state.debt == state.noted_debt then return end
  state.noted_debt, state.is_changed = state.debt, true
end

function token_bucket.is_as_new(state)
  return state.debt == 0
end

function token_bucket.text(state)
  return digits(state.debt, state.at_us)
end
