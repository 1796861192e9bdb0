-- Sliding log: keeps every payment of the last window with its time, so that the limit holds in any rolling window.
-- state     string of doubles: the sum of all costs before the oldest payment; then per payment, oldest first, its time and the sum of
--           all costs up to and including its own (src/engine/algorithms/sliding-log.ts)
-- lifetime  until the newest payment is a window old
-- The text is not unpacked: a payment is found by halving and added at the end. What a group pays stays in `pending` until `note`, so
-- undoing it is exact.
local sliding_log = {}

local PAYMENTS_MAX, SUM_MAX = 1000, 4503599627370496
local PAYMENT_BYTES = 16
-- Where the time and the sum of payment `i` begin, from i * PAYMENT_BYTES on. Payment 0 is the head, which has a sum alone.
local TIME_AT, SUM_AT = -7, 1

local function number_of(state, i, which)
  return (struct.unpack('<d', state.text, i * PAYMENT_BYTES + which))
end

-- Time of payment `i`: whole and within the window, whatever stands in a damaged text.
local function time_of(state, i)
  return min(state.effective_us, max(state.effective_us - state.limit.window_us, floor(number_of(state, i, TIME_AT))))
end

-- How many of the oldest payments have at most this time, or at most this sum.
local function count_up_to(state, which, most)
  local low, high = 0, state.count
  while low < high do
    local middle = ceil((low + high) / 2)
    if number_of(state, middle, which) <= most then low = middle else high = middle - 1 end
  end
  return low
end

-- Replaces all payments after the first `kept` by packed ones.
local function replace_after(state, kept, packed)
  local first_text = kept == state.count and state.text or string.sub(state.text, 1, kept * PAYMENT_BYTES + SUM_AT + 7)
  state.text = table.concat({ first_text, packed })
  state.count = (#state.text - 8) / PAYMENT_BYTES
end

-- The payments from `from` on, packed, with sums that are `less` lower, and dated `at_us` at the latest.
local function packed_from(state, from, less, at_us)
  local numbers = unpack_all(string.sub(state.text, from * PAYMENT_BYTES + TIME_AT))
  for i = 1, #numbers, 2 do numbers[i], numbers[i + 1] = min(numbers[i], at_us), numbers[i + 1] - less end
  return pack_all(numbers)
end

local function count_total(state)
  state.total = number_of(state, state.count, SUM_AT) - number_of(state, 0, SUM_AT)
end

-- Makes `pending` a payment. Payments of one time are one; so are the newest ones of a full log, which then counts as paid last.
local function commit(state)
  if state.pending == 0 then return end
  local sum, kept = number_of(state, state.count, SUM_AT) + state.pending, state.count
  if kept == PAYMENTS_MAX or (kept > 0 and number_of(state, kept, TIME_AT) == state.effective_us) then kept = kept - 1 end
  replace_after(state, kept, struct.pack('<dd', state.effective_us, sum))
  state.total, state.pending = state.total + state.pending, 0
end

-- Brings the saved payments to now; false if they are damaged.
local function advance(state, limit, now_us)
  if state.count < 1 or state.count % 1 ~= 0 then return false end
  local newest_us, base = number_of(state, state.count, TIME_AT), number_of(state, 0, SUM_AT)
  if not (newest_us >= 0 and newest_us <= EXACT_MAX and newest_us % 1 == 0 and base >= 0 and base <= EXACT_MAX) then return false end
  state.is_changed = newest_us > now_us + limit.skew_us
  if state.is_changed then
    local kept = count_up_to(state, TIME_AT, now_us)
    replace_after(state, kept, packed_from(state, kept + 1, 0, now_us))
  end
  state.effective_us = state.is_changed and now_us or max(now_us, newest_us)
  local oldest_us = state.effective_us - limit.window_us
  -- All of them, whatever stands between, so that a damaged text does not last.
  local dropped = newest_us <= oldest_us and state.count or count_up_to(state, TIME_AT, oldest_us)
  if dropped > 0 then state.text, state.count = string.sub(state.text, dropped * PAYMENT_BYTES + SUM_AT), state.count - dropped end
  count_total(state)
  base = number_of(state, 0, SUM_AT)
  if base > SUM_MAX then state.text = table.concat({ struct.pack('<d', 0), packed_from(state, 1, base, EXACT_MAX) }) end
  -- Not so if a sum is no number.
  return state.total <= AMOUNT_MAX and state.total % 1 == 0 and state.total >= min(1, state.count)
end

-- The state of the saved text (false: nothing is saved), advanced to now. Nil if the text is damaged.
function sliding_log.open(saved, limit, now_us)
  local text = saved or struct.pack('<d', 0)
  local state = {
    text = text, count = (#text - 8) / PAYMENT_BYTES, total = 0, pending = 0, noted_total = 0, effective_us = now_us,
    is_changed = false, limit = limit, lifetime_us = 0, group_at = 0,
  }
  if saved and not advance(state, limit, now_us) then return nil end
  state.noted_total = state.total
  return state
end

-- Reuses the state in another group, as if it had been saved and read again.
function sliding_log.reopen(state, _, now_us)
  state.effective_us = state.count > 0 and max(now_us, time_of(state, state.count)) or now_us
end

function sliding_log.judge(state, limit, cost, now_us)
  if cost > limit.amount then return OUTCOME_NEVER, 0 end
  local excess = state.total + state.pending + cost - limit.amount
  if excess <= 0 then return OUTCOME_ROOM, 0 end
  local i = count_up_to(state, SUM_AT, number_of(state, 0, SUM_AT) + excess - 1) + 1
  return OUTCOME_OVER, (i <= state.count and time_of(state, i) or state.effective_us) + limit.window_us - now_us
end

function sliding_log.pay(state, cost)
  state.pending = state.pending + cost
end

function sliding_log.undo(state, cost)
  state.pending = state.pending - cost
end

-- Counts beyond the limit, up to AMOUNT_MAX in total; returns the hits that were not counted.
function sliding_log.post_pay(state, _, cost)
  local kept = min(cost, AMOUNT_MAX - state.total - state.pending)
  state.pending = state.pending + kept
  return cost - kept
end

-- Takes up to `cost` off, newest payments first.
function sliding_log.refund(state, _, cost)
  commit(state)
  local sum = number_of(state, state.count, SUM_AT) - min(cost, state.total)
  local kept = count_up_to(state, SUM_AT, sum)
  local is_part = number_of(state, kept, SUM_AT) < sum
  replace_after(state, kept, is_part and struct.pack('<dd', number_of(state, kept + 1, TIME_AT), sum) or '')
  count_total(state)
end

-- Takes up to `cost` off the payment of that time, if there is one.
function sliding_log.give_back(state, _, cost, paid_at_us)
  commit(state)
  local i = count_up_to(state, TIME_AT, paid_at_us)
  if i == 0 or number_of(state, i, TIME_AT) ~= paid_at_us then return end
  local own = number_of(state, i, SUM_AT) - number_of(state, i - 1, SUM_AT)
  replace_after(state, i - 1, packed_from(state, own > cost and i or i + 1, min(own, cost), EXACT_MAX))
  count_total(state)
end

function sliding_log.paid_at_us(state)
  return state.effective_us
end

function sliding_log.remaining(state, limit)
  return max(0, limit.amount - state.total - state.pending)
end

function sliding_log.reset_us(state, limit, now_us)
  if state.total + state.pending == 0 then return 0 end
  local newest_us = state.pending > 0 and state.effective_us or time_of(state, state.count)
  return newest_us + limit.window_us - now_us
end

-- Marks the state as changed if its total differs from the last note.
function sliding_log.note(state)
  commit(state)
  if state.total == state.noted_total then return end
  state.noted_total, state.is_changed = state.total, true
end

function sliding_log.is_as_new(state)
  return state.total == 0
end

function sliding_log.text(state)
  return state.text
end

return sliding_log
