-- What fixed, sliding and calendar windows share, as src/engine/algorithms/fixed-window.ts exports it. Counts go beyond
-- the limit, up to AMOUNT_MAX.
-- used      the count
-- at_us     start of the window; of a calendar window the time of its first hit

local function windows()
  return {
    -- Whether a state's number is one that Headgate writes.
    is_whole = function(number, most)
      return number >= 0 and number <= most and number % 1 == 0
    end,

    -- Start of the window that contains `at_us`.
    window_start_us = function(limit, at_us)
      local window_us = limit.window_seconds * TICKS
      return floor(at_us / window_us) * window_us
    end,

    -- Moves a state of a later window to the current one if it is further ahead of now than a clock may be; true if it
    -- moved it.
    redate_if_too_late = function(state, limit, start_us, now_us)
      if state.at_us - now_us <= min(limit.window_seconds * TICKS, SKEW_US_MAX) then return false end
      state.at_us = start_us
      return true
    end,

    -- Judges by the count of a window that ends in `us_to_end` microseconds.
    judge_count = function(state, limit, cost, us_to_end)
      if cost > limit.amount then return OUTCOME_NEVER, 0 end
      if state.used + cost <= limit.amount then return OUTCOME_ROOM, 0 end
      return OUTCOME_OVER, us_to_end
    end,

    report_count = function(state, limit, us_to_end)
      return max(0, limit.amount - state.used), state.used > 0 and us_to_end or 0
    end,

    pay = function(state, cost)
      state.used = state.used + cost
    end,

    post_pay = function(state, _, cost)
      local used = state.used + cost
      state.used = min(used, AMOUNT_MAX)
      return used - state.used
    end,

    refund = function(state, _, cost)
      state.used = max(0, state.used - cost)
    end,
  }
end
