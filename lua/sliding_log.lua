-- Sliding log: keeps every payment of the last window with its time, so that the limit holds in any rolling window. The
-- twin of src/engine/algorithms/sliding-log.ts and log-state.ts.
-- state     string of doubles: the sum of all costs before the oldest payment; then per payment, oldest first, its time
--           and the sum of all costs up to and including its own
-- lifetime  until the newest payment is a window old
-- payments  the payments, as the state has them. They are not unpacked: a payment is found by halving and added at the
--           end.
-- used      the sum of all costs in the window, and of what the group pays, which joins the payments when they are
--           written
-- at_us     now, or the time of the newest payment if that is later

local function sliding_log()
  local PAYMENTS_MAX, SUM_MAX = 1000, 4503599627370496
  local PAYMENT_BYTES = 16
  -- Where the time and the sum of payment `i` begin, from i * PAYMENT_BYTES on. Payment 0 is the head, which has a sum
  -- alone.
  local TIME_AT, SUM_AT = -7, 1

  local function number_of(payments, i, which)
    return (unpack_numbers('<d', payments, i * PAYMENT_BYTES + which))
  end

  local function count_of(payments)
    return (#payments - 8) / PAYMENT_BYTES
  end

  -- How many of the oldest payments have at most this time, or at most this sum.
  local function count_up_to(payments, which, most)
    local low, high = 0, count_of(payments)
    while low < high do
      local middle = ceil((low + high) / 2)
      if number_of(payments, middle, which) <= most then low = middle else high = middle - 1 end
    end
    return low
  end

  -- The first `kept` payments, and packed ones after them.
  local function replace_after(payments, kept, packed)
    local first = kept == count_of(payments) and payments or string.sub(payments, 1, kept * PAYMENT_BYTES + SUM_AT + 7)
    return table.concat({ first, packed })
  end

  -- The payments from `from` on, packed, with sums that are `less` lower, and dated `at_us` at the latest.
  local function packed_from(payments, from, less, at_us)
    local count = #payments / 8 - from * 2 + 1
    local pairs_format = '<' .. rep('d', count)
    local numbers = { unpack_numbers(pairs_format, payments, from * PAYMENT_BYTES + TIME_AT) }
    for i = 1, count, 2 do numbers[i], numbers[i + 1] = min(numbers[i], at_us), numbers[i + 1] - less end
    return pack_numbers(pairs_format, unpack(numbers, 1, count))
  end

  local function total(payments)
    return number_of(payments, count_of(payments), SUM_AT) - number_of(payments, 0, SUM_AT)
  end

  -- Time of payment `i`: whole and within the window that ends at `at_us`, whatever a damaged text has.
  local function time_of(payments, i, at_us, window_us)
    return min(at_us, max(at_us - window_us, floor(number_of(payments, i, TIME_AT))))
  end

  -- The saved payments at now, what they are together, their time, and whether it was moved. The payments are nil if
  -- they are damaged.
  local function open(payments, window_us, now_us)
    local count = count_of(payments)
    if count < 1 or count % 1 ~= 0 then return nil end
    local newest_us, base = number_of(payments, count, TIME_AT), number_of(payments, 0, SUM_AT)
    if not (newest_us >= 0 and newest_us <= EXACT_MAX and newest_us % 1 == 0 and base >= 0 and base <= EXACT_MAX) then return nil end
    local is_redated = newest_us > now_us + min(window_us, SKEW_US_MAX)
    if is_redated then
      local kept = count_up_to(payments, TIME_AT, now_us)
      payments = replace_after(payments, kept, packed_from(payments, kept + 1, 0, now_us))
    end
    local at_us = is_redated and now_us or max(now_us, newest_us)
    -- All of them, whatever is between, so that a damaged text does not last.
    local dropped = newest_us <= at_us - window_us and count or count_up_to(payments, TIME_AT, at_us - window_us)
    if dropped > 0 then payments = string.sub(payments, dropped * PAYMENT_BYTES + SUM_AT) end
    local used = total(payments)
    base = number_of(payments, 0, SUM_AT)
    if base > SUM_MAX then payments = table.concat({ pack_numbers('<d', 0), packed_from(payments, 1, base, EXACT_MAX) }) end
    -- Not so if a sum is no number.
    if not (used <= AMOUNT_MAX and used % 1 == 0 and used >= min(1, count - dropped)) then return nil end
    return payments, used, at_us, is_redated
  end

  -- When enough of the payments leave the window that `excess` has room.
  local function time_that_frees(payments, excess, at_us, window_us)
    local i = count_up_to(payments, SUM_AT, number_of(payments, 0, SUM_AT) + excess - 1) + 1
    return (i <= count_of(payments) and time_of(payments, i, at_us, window_us) or at_us) + window_us
  end

  -- Adds a payment. Payments of one time are one; so are the newest ones of a full log, which then counts as paid last.
  local function add(payments, cost, at_us)
    if cost == 0 then return payments end
    local kept = count_of(payments)
    local sum = number_of(payments, kept, SUM_AT) + cost
    if kept == PAYMENTS_MAX or (kept > 0 and number_of(payments, kept, TIME_AT) == at_us) then kept = kept - 1 end
    return replace_after(payments, kept, pack_numbers('<dd', at_us, sum))
  end

  -- Takes up to `cost` off, newest payments first.
  local function take_off_newest(payments, cost, at_us, window_us)
    local sum = number_of(payments, count_of(payments), SUM_AT) - min(cost, total(payments))
    local newest = count_up_to(payments, SUM_AT, sum)
    if number_of(payments, newest, SUM_AT) < sum then newest = newest + 1 end
    if newest == 0 then return replace_after(payments, 0, '') end
    return replace_after(payments, newest - 1, pack_numbers('<dd', time_of(payments, newest, at_us, window_us), sum))
  end

  -- Takes up to `cost` off the payment of that time, if there is one.
  local function take_off_at(payments, cost, paid_at_us)
    local i = count_up_to(payments, TIME_AT, paid_at_us)
    if i == 0 or number_of(payments, i, TIME_AT) ~= paid_at_us then return payments end
    -- Whole, whatever a damaged text has.
    local own = max(0, floor(number_of(payments, i, SUM_AT) - number_of(payments, i - 1, SUM_AT)))
    return replace_after(payments, i - 1, packed_from(payments, own > cost and i or i + 1, min(own, cost), EXACT_MAX))
  end

  -- What the group has paid joins the payments.
  local function join(state)
    state.payments = add(state.payments, state.used - total(state.payments), state.at_us)
  end

  return {
    -- Advances the state, too: only what is left in the window shows whether the text is sound.
    read = function(state, text, limit, now_us)
      state.payments, state.used, state.at_us, state.is_redated = open(text, limit.window_seconds * TICKS, now_us)
      return state.payments ~= nil
    end,

    clear = function(state, _, now_us)
      state.payments, state.used, state.at_us, state.is_redated = pack_numbers('<d', 0), 0, now_us, false
    end,

    advance = function(state)
      return state.is_redated
    end,

    judge = function(state, limit, cost, now_us)
      if cost > limit.amount then return OUTCOME_NEVER, 0 end
      local excess = state.used + cost - limit.amount
      if excess <= 0 then return OUTCOME_ROOM, 0 end
      return OUTCOME_OVER, time_that_frees(state.payments, excess, state.at_us, limit.window_seconds * TICKS) - now_us
    end,

    pay = function(state, cost)
      state.used = state.used + cost
    end,

    post_pay = function(state, _, cost)
      local kept = max(0, min(cost, AMOUNT_MAX - state.used))
      state.used = state.used + kept
      return cost - kept
    end,

    refund = function(state, limit, cost)
      join(state)
      state.payments = take_off_newest(state.payments, cost, state.at_us, limit.window_seconds * TICKS)
      state.used = total(state.payments)
    end,

    give_back = function(state, _, cost, paid_at_us)
      join(state)
      state.payments = take_off_at(state.payments, cost, paid_at_us)
      state.used = total(state.payments)
    end,

    report = function(state, limit, now_us)
      local payments, window_us, newest_us = state.payments, limit.window_seconds * TICKS, state.at_us
      if state.used == 0 then return limit.amount, 0 end
      if state.used == total(payments) then newest_us = time_of(payments, count_of(payments), state.at_us, window_us) end
      return max(0, limit.amount - state.used), newest_us + window_us - now_us
    end,

    write = function(state)
      join(state)
      return state.used > 0 and state.payments
    end,
  }
end
