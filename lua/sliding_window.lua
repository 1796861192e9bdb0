-- Sliding window: the count of the current clock-aligned window, plus the count of the previous one weighted by the
-- part of it that a window ending now still covers. The twin of src/engine/algorithms/sliding-window.ts.
-- state     three doubles: start of the current window, its count, the count of the previous one
-- lifetime  until neither count has any weight
-- used      the count of the current window
-- at_us     its start
-- previous  the count of the previous window

local function sliding_window()
  local shared = windows()

  -- Ticks since the start of the current window: 0 to 999,999. A tick has as many microseconds as the window has
  -- seconds.
  local function elapsed_ticks(state, limit, now_us)
    return now_us > state.at_us and floor((now_us - state.at_us) / limit.window_seconds) or 0
  end

  -- Ticks from the window's start until a cost fits that does not fit now. `left` is amount - cost, `room` is amount -
  -- current - cost.
  local function first_tick_with_room(state, left, room)
    -- The cost fits with the current count alone, so the previous count has to fade. That is above 0: the cost doesn't
    -- fit now.
    if room >= 0 then return TICKS - floor(room * TICKS / state.previous) end
    -- Otherwise the current count must become the previous one and fade in turn.
    return TICKS + max(0, TICKS - floor(left * TICKS / state.used))
  end

  return {
    pay = shared.pay,
    post_pay = shared.post_pay,

    read = function(state, text, limit)
      if #text ~= 24 then return false end
      local at_us, used, previous = unpack_numbers('<ddd', text)
      state.at_us, state.used, state.previous = at_us, used, previous
      return shared.is_whole(at_us, EXACT_MAX) and at_us % (limit.window_seconds * TICKS) == 0
        and shared.is_whole(used, AMOUNT_MAX) and shared.is_whole(previous, AMOUNT_MAX)
    end,

    clear = function(state, limit, now_us)
      state.at_us, state.used, state.previous = shared.window_start_us(limit, now_us), 0, 0
    end,

    advance = function(state, limit, now_us)
      local start_us = shared.window_start_us(limit, now_us)
      if state.at_us == start_us then return false end
      if state.at_us > now_us then return shared.redate_if_too_late(state, limit, start_us, now_us) end
      state.previous = state.at_us == start_us - limit.window_seconds * TICKS and state.used or 0
      state.at_us, state.used = start_us, 0
      return false
    end,

    judge = function(state, limit, cost, now_us)
      local amount = limit.amount
      if cost > amount then return OUTCOME_NEVER, 0 end
      local room = amount - state.used - cost
      if state.previous * (TICKS - elapsed_ticks(state, limit, now_us)) <= room * TICKS then return OUTCOME_ROOM, 0 end
      local tick = first_tick_with_room(state, amount - cost, room)
      return OUTCOME_OVER, state.at_us + tick * limit.window_seconds - now_us
    end,

    refund = function(state, _, cost)
      local from_current = min(state.used, cost)
      state.used = state.used - from_current
      state.previous = max(0, state.previous - (cost - from_current))
    end,

    give_back = function(state, limit, cost, paid_at_us)
      local start_us = shared.window_start_us(limit, paid_at_us)
      if start_us == state.at_us then
        state.used = max(0, state.used - cost)
      elseif start_us == state.at_us - limit.window_seconds * TICKS then
        state.previous = max(0, state.previous - cost)
      end
    end,

    report = function(state, limit, now_us)
      local left = (limit.amount - state.used) * TICKS - state.previous * (TICKS - elapsed_ticks(state, limit, now_us))
      local windows_left = state.used > 0 and 2 or state.previous > 0 and 1 or 0
      local reset_us = windows_left > 0 and state.at_us + windows_left * limit.window_seconds * TICKS - now_us or 0
      return max(0, floor(left / TICKS)), reset_us
    end,

    write = function(state)
      return (state.used > 0 or state.previous > 0) and pack_numbers('<ddd', state.at_us, state.used, state.previous)
    end,
  }
end
