-- Token bucket: `amount` tokens return per window, up to `burst`. The state is a debt: what was paid and has not
-- returned yet, in millionths of a token. A cost has room while debt and cost together do not exceed the burst.
--   paying     debt += cost x 1e6
--   each tick  debt -= amount, down to 0 (a window has 1e6 ticks)
--   remaining  (burst x 1e6 - debt) / 1e6, rounded down
-- The twin of src/engine/algorithms/token-bucket.ts. Products that could pass 2^53 are computed in two parts, as in
-- src/engine/domain/limit.ts.
-- state     two doubles: debt, and the time up to which whole ticks were paid off; no state: no debt
-- lifetime  until the debt is paid off
-- used      the debt at at_us
-- at_us     the time up to which whole ticks were paid off
-- refill    what has returned since, in part of a tick: the debt at now is used - refill. It is counted wherever the
--           debt is read, so nothing comes late or is rounded away
-- A tick has as many microseconds as the window has seconds. TICKS is also the millionths of a token.

local function token_bucket()
  -- Millionths of a token that return in `us` microseconds, which are less than a tick; rounded down.
  local function refill_within_tick(us, amount, window_seconds)
    if us * amount <= EXACT_MAX then return floor(us * amount / window_seconds) end
    local whole = floor(amount / window_seconds)
    return us * whole + floor(us * (amount - whole * window_seconds) / window_seconds)
  end

  -- ceil(rest x window_seconds / amount), for `rest` below `amount`. If that product passes 2^53, window_seconds (25
  -- bits) is split into high x HALF + low.
  local function us_within_tick(rest, amount, window_seconds)
    if rest * window_seconds <= EXACT_MAX then return ceil(rest * window_seconds / amount) end
    local HALF = 8192 -- 2^13
    local high = floor(window_seconds / HALF)
    local us = floor(rest * high / amount)
    return us * HALF + ceil(((rest * high - us * amount) * HALF + rest * (window_seconds - high * HALF)) / amount)
  end

  -- Microseconds from now until `debt`, which is of state.at_us, has returned, at most WAIT_US_MAX; a window's length
  -- if the limit has no refill.
  local function us_until_worked_off(debt, state, limit, now_us)
    local amount, window_seconds = limit.amount, limit.window_seconds
    if amount == 0 then return window_seconds * TICKS end
    local ticks = floor(debt / amount)
    if ticks * window_seconds >= WAIT_US_MAX then return WAIT_US_MAX end
    local us = ticks * window_seconds + us_within_tick(debt - ticks * amount, amount, window_seconds)
    if us >= WAIT_US_MAX then return WAIT_US_MAX end
    us = us + state.at_us - now_us
    return us < WAIT_US_MAX and us or WAIT_US_MAX
  end

  -- Makes a bucket without debt a full one, to which nothing returns: its time begins now.
  local function fill_if_paid_off(state, now_us)
    if state.used <= state.refill then state.used, state.at_us, state.refill = 0, max(state.at_us, now_us), 0 end
  end

  local function take_off(state, debt, now_us)
    state.used = max(0, state.used - debt)
    fill_if_paid_off(state, now_us)
  end

  return {
    take_off = take_off,

    read = function(state, text)
      if #text ~= 16 then return false end
      local used, at_us = unpack_numbers('<dd', text)
      state.used, state.at_us = used, at_us
      return used >= 0 and used <= EXACT_MAX and used % 1 == 0 and at_us >= 0 and at_us <= EXACT_MAX and at_us % 1 == 0
    end,

    clear = function(state, _, now_us)
      state.used, state.at_us, state.refill = 0, now_us, 0
    end,

    advance = function(state, limit, now_us)
      local used, at_us, amount, window_seconds = state.used, state.at_us, limit.amount, limit.window_seconds
      local is_redated = at_us > now_us and at_us - now_us > min(window_seconds * TICKS, SKEW_US_MAX)
      if is_redated then
        at_us = now_us
      elseif at_us < now_us then
        local ticks = floor((now_us - at_us) / window_seconds)
        if amount > 0 and ticks >= used / amount then
          used = 0
        else
          -- The product is below the debt, so it can't pass 2^53.
          used, at_us = used - ticks * amount, at_us + ticks * window_seconds
        end
      end
      state.used, state.at_us = used, at_us
      state.refill = now_us > at_us and refill_within_tick(now_us - at_us, amount, window_seconds) or 0
      fill_if_paid_off(state, now_us)
      return is_redated
    end,

    judge = function(state, limit, cost, now_us)
      local burst = limit.burst
      if cost > burst then return OUTCOME_NEVER, 0 end
      local excess = state.used + (cost - burst) * TICKS
      if excess <= state.refill then return OUTCOME_ROOM, 0 end
      return OUTCOME_OVER, us_until_worked_off(excess, state, limit, now_us)
    end,

    pay = function(state, cost)
      state.used = state.used + cost * TICKS
    end,

    -- A larger debt than debt_max (after an edit) stays.
    post_pay = function(state, limit, cost)
      local debt_max = limit.debt_max * TICKS + state.refill
      if state.used > debt_max then return cost end
      local debt = state.used + cost * TICKS
      state.used = min(debt, debt_max)
      return ceil((debt - state.used) / TICKS)
    end,

    refund = function(state, _, cost, now_us)
      take_off(state, cost * TICKS, now_us)
    end,

    -- Refill since the payment is not given back: without the payment the bucket may have been full, and would have got
    -- no refill.
    give_back = function(state, limit, cost, paid_at_us, now_us)
      local debt, us, amount, window_seconds = cost * TICKS, now_us - paid_at_us, limit.amount, limit.window_seconds
      if us > 0 and amount > 0 then
        local ticks = floor(us / window_seconds)
        local refill = ticks * amount + refill_within_tick(us - ticks * window_seconds, amount, window_seconds)
        debt = debt - (refill + 1) -- at most that, wherever ticks begin in that time
      end
      if debt > 0 then take_off(state, debt, now_us) end
    end,

    report = function(state, limit, now_us)
      local used = state.used
      if used == 0 then return limit.burst, 0 end
      local left = limit.burst * TICKS - (used - state.refill)
      return left > 0 and floor(left / TICKS) or 0, us_until_worked_off(used, state, limit, now_us)
    end,

    write = function(state)
      return state.used > 0 and pack_numbers('<dd', state.used, state.at_us)
    end,
  }
end
