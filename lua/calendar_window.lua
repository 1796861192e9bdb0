-- Calendar window: one count per calendar window. The limit brings the ends of windows by the caller's time zone data;
-- the state keeps the end that its window began with. The twin of src/engine/algorithms/calendar-window.ts.
-- state     three doubles: time of the first hit, count, and seconds from the second of the first hit to the end
-- lifetime  until the window ends
-- used      the count
-- at_us     time of the first hit
-- previous  the seconds
-- A limit has, as `burst`, `window_seconds` and `debt_max`: start and end of the caller's window and the end of the
-- next one.

local function calendar_window()
  local EDGE_SKEW_US_MAX = 93600000000 -- 26 hours; an end later than the caller's by more is replaced by the caller's
  local shared = windows()

  -- End of the window that contains `at_us`. Outside the given edges, windows are as long as the nearest given one.
  local function end_us_of(limit, at_us)
    local start_us, end_us, next_end_us = limit.burst, limit.window_seconds, limit.debt_max
    if at_us < start_us then return start_us - floor((start_us - 1 - at_us) / (end_us - start_us)) * (end_us - start_us) end
    if at_us < end_us then return end_us end
    return next_end_us + (floor((at_us - next_end_us) / (next_end_us - end_us)) + 1) * (next_end_us - end_us)
  end

  -- End of the state's window.
  local function state_end_us(state)
    return (floor(state.at_us / TICKS) + state.previous) * TICKS
  end

  -- Has the state's window begin at `at_us`, `now_us` at the latest, and end with the limit's.
  local function set_edges(state, limit, at_us, now_us)
    state.at_us, state.previous = at_us, end_us_of(limit, now_us) / TICKS - floor(at_us / TICKS)
  end

  return {
    pay = shared.pay,
    post_pay = shared.post_pay,
    refund = shared.refund,

    read = function(state, text)
      if #text ~= 24 then return false end
      local at_us, used, previous = unpack_numbers('<ddd', text)
      state.at_us, state.used, state.previous = at_us, used, previous
      return shared.is_whole(at_us, EXACT_MAX) and shared.is_whole(used, AMOUNT_MAX) and shared.is_whole(previous, AMOUNT_MAX)
    end,

    clear = function(state, limit, now_us)
      set_edges(state, limit, now_us, now_us)
      state.used = 0
    end,

    -- An unused window equals none, so a new one begins.
    advance = function(state, limit, now_us)
      local end_us = state_end_us(state)
      if state.used == 0 or now_us >= end_us then
        set_edges(state, limit, now_us, now_us)
        state.used = 0
      elseif state.at_us - now_us > SKEW_US_MAX or end_us - end_us_of(limit, now_us) > EDGE_SKEW_US_MAX then
        -- The count stays, so its payments still belong to the window and can be given back.
        set_edges(state, limit, min(state.at_us, now_us), now_us)
        return true
      end
      return false
    end,

    judge = function(state, limit, cost, now_us)
      return shared.judge_count(state, limit, cost, state_end_us(state) - now_us)
    end,

    give_back = function(state, limit, cost, paid_at_us)
      if paid_at_us >= state.at_us then shared.refund(state, limit, cost) end
    end,

    report = function(state, limit, now_us)
      return shared.report_count(state, limit, state_end_us(state) - now_us)
    end,

    write = function(state)
      return state.used > 0 and pack_numbers('<ddd', state.at_us, state.used, state.previous)
    end,
  }
end
