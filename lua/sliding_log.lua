-- Sliding log: keeps every payment of the last window with its time, so that the limit holds in any rolling window.
-- state     string of doubles: the sum of all costs before the oldest payment; then per payment, oldest first, its time and the sum of
--           all costs up to and including its own (src/engine/algorithms/sliding-log.ts)
-- lifetime  until the newest payment is a window old
-- used      the sum of all costs in the window, and of what the group pays, which joins the text when that is written
-- at_us     now, or the time of the newest payment if that is later
-- rest      the payments, as the state has them
-- The text is not unpacked: a payment is found by halving and added at the end.

log = {}

local PAYMENTS_MAX, SUM_MAX = 1000, 4503599627370496
local PAYMENT_BYTES = 16
-- Where the time and the sum of payment `i` begin, from i * PAYMENT_BYTES on. Payment 0 is the head, which has a sum alone.
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

function log.total(payments)
  return number_of(payments, count_of(payments), SUM_AT) - number_of(payments, 0, SUM_AT)
end

-- Time of payment `i`: whole and within the window that ends at `at_us`, whatever a damaged text has.
function log.time_of(payments, i, at_us, window_us)
  return min(at_us, max(at_us - window_us, floor(number_of(payments, i, TIME_AT))))
end

-- The saved payments at now, what they are together, their time, and whether it was moved. The payments are nil if they are damaged.
function log.open(payments, window_us, now_us)
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
  local total = log.total(payments)
  base = number_of(payments, 0, SUM_AT)
  if base > SUM_MAX then payments = table.concat({ pack_numbers('<d', 0), packed_from(payments, 1, base, EXACT_MAX) }) end
  -- Not so if a sum is no number.
  if not (total <= AMOUNT_MAX and total % 1 == 0 and total >= min(1, count - dropped)) then return nil end
  return payments, total, at_us, is_redated
end

-- When enough of the payments leave the window that `excess` has room.
function log.room_us(payments, excess, at_us, window_us)
  local i = count_up_to(payments, SUM_AT, number_of(payments, 0, SUM_AT) + excess - 1) + 1
  return (i <= count_of(payments) and log.time_of(payments, i, at_us, window_us) or at_us) + window_us
end

-- Adds a payment. Payments of one time are one; so are the newest ones of a full log, which then counts as paid last.
function log.pay(payments, cost, at_us)
  if cost == 0 then return payments end
  local kept = count_of(payments)
  local sum = number_of(payments, kept, SUM_AT) + cost
  if kept == PAYMENTS_MAX or (kept > 0 and number_of(payments, kept, TIME_AT) == at_us) then kept = kept - 1 end
  return replace_after(payments, kept, pack_numbers('<dd', at_us, sum))
end

-- Takes up to `cost` off, newest payments first.
function log.refund(payments, cost, at_us, window_us)
  local sum = number_of(payments, count_of(payments), SUM_AT) - min(cost, log.total(payments))
  local newest = count_up_to(payments, SUM_AT, sum)
  if number_of(payments, newest, SUM_AT) < sum then newest = newest + 1 end
  if newest == 0 then return replace_after(payments, 0, '') end
  return replace_after(payments, newest - 1, pack_numbers('<dd', log.time_of(payments, newest, at_us, window_us), sum))
end

-- Takes up to `cost` off the payment of that time, if there is one.
function log.give_back(payments, cost, paid_at_us)
  local i = count_up_to(payments, TIME_AT, paid_at_us)
  if i == 0 or number_of(payments, i, TIME_AT) ~= paid_at_us then return payments end
  -- Whole, whatever a damaged text has.
  local own = max(0, floor(number_of(payments, i, SUM_AT) - number_of(payments, i - 1, SUM_AT)))
  return replace_after(payments, i - 1, packed_from(payments, own > cost and i or i + 1, min(own, cost), EXACT_MAX))
end

-- PIECE read
rest, used, at_us, is_redated = log.open(text, seconds * TICKS, now_us)
is_sound = rest

-- PIECE advance
if rest == 0 then rest = pack_numbers('<d', 0) end

-- PIECE judge
local excess = used + cost - amount
if cost > amount then
  outcome = OUTCOME_NEVER
elseif excess > 0 then
  outcome, wait_us = OUTCOME_OVER, log.room_us(rest, excess, at_us, seconds * TICKS) - now_us
end

-- PIECE give_back
rest = log.pay(rest, used - log.total(rest), at_us)
rest = mode == MODE_REFUND and log.refund(rest, cost, at_us, seconds * TICKS) or log.give_back(rest, cost, paid_at_us)
used = log.total(rest)

-- PIECE report
remaining = amount - used
if used > 0 then
  local newest_us = used > log.total(rest) and at_us or log.time_of(rest, (#rest - 8) / 16, at_us, seconds * TICKS)
  reset_us = newest_us + seconds * TICKS - now_us
end

-- PIECE write
if used > 0 then text = log.pay(rest, used - log.total(rest), at_us) end
