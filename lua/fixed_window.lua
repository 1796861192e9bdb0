-- Fixed window: one count per clock-aligned window. Windows are aligned to the Unix epoch, so all processes and all
-- stores agree on them. The twin of src/engine/algorithms/fixed-window.ts.
-- state     two doubles: start of the window, and its count
-- lifetime  until the window ends
-- used      the count
-- at_us     start of the window

local function fixed_window()
  local shared = windows()

  local function us_to_next(state, limit, now_us)
    return state.at_us + limit.window_seconds * TICKS - now_us
  end

  return {
    pay = shared.pay,
    post_pay = shared.post_pay,
    refund = shared.refund,

    read = function(state, text, limit)
      if #text ~= 16 then return false end
      local at_us, used = unpack_numbers('<dd', text)
      state.at_us, state.used = at_us, used
      return shared.is_whole(at_us, EXACT_MAX) and at_us % (limit.window_seconds * TICKS) == 0 and shared.is_whole(used, AMOUNT_MAX)
    end,

    clear = function(state, limit, now_us)
      state.at_us, state.used = shared.window_start_us(limit, now_us), 0
    end,

    advance = function(state, limit, now_us)
      local start_us = shared.window_start_us(limit, now_us)
      if state.at_us == start_us then return false end
      if state.at_us > now_us then return shared.redate_if_too_late(state, limit, start_us, now_us) end
      state.at_us, state.used = start_us, 0
      return false
    end,

    judge = function(state, limit, cost, now_us)
      return shared.judge_count(state, limit, cost, us_to_next(state, limit, now_us))
    end,

    give_back = function(state, limit, cost, paid_at_us)
      if shared.window_start_us(limit, paid_at_us) == state.at_us then shared.refund(state, limit, cost) end
    end,

    report = function(state, limit, now_us)
      return shared.report_count(state, limit, us_to_next(state, limit, now_us))
    end,

    write = function(state)
      return state.used > 0 and pack_numbers('<dd', state.at_us, state.used)
    end,
  }
end
