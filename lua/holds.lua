-- Holds: payments that wait for their settlement, as src/engine/algorithms/holds.ts says.
-- state     beside the bucket's own key: `<key>|holds`, a sorted set of the live holds "cost paid_at_us payment |id" by the time of their
--           end (a hold without an id has plus signs or nothing in place of `|id`); `<key>|hold|<id>` per hold with an id, a string
--           "cost paid_at_us payment ends_at_us", or after settlement "settled until_us" (when it may be forgotten); and for a token
--           bucket `<key>|lows`, a string of doubles (see LOWS_MAX)
-- lifetime  set and lows: as the bucket's, at least until the last hold ends, never shortened; a hold's key: until the hold ends, after
--           settlement as long again
-- Redis may evict any of these keys. If the lows are lost, nothing is given back for older holds. A hold without its member in the set
-- does not exist.
-- Nothing is written before `write_all`. All groups of a call share its books and names.
local holds = {}

local PER_BUCKET_MAX = 10000
-- How many holds this call may still end, in all buckets together; the rest ends in later calls (bench/store/holds.mjs).
local endings_left = 32
local WAIT_US_MIN = 1000000
local SAME_MOMENT_MAX = 64 -- most members tried to find a hold without an id: as many as one call can open
local FOUND_NONE, FOUND_SETTLED = -1, -2

-- `refs`: the data of ARGV[5] by the index of a take in `groups`; for a receipt, by its negative index in `receipts`.
-- `named`: the content of holds' own keys as the call has left it, by the index of the key.
local refs, book_of_bucket, books, named = {}, {}, {}, {}
local saved -- the texts of the call's keys, by index

-- The lowest debts of a token bucket, as src/engine/algorithms/debt-lows.ts keeps them: number of the last payment, number of the last payment
-- that opened a hold, what all holds together can give back, then per low the number of its payment and the debt before it.
local LOWS_MAX = 64

local function read_lows(place)
  local text, lows = saved[place], { place = place, last = 0, last_held = 0, held = 0, payments = {}, lows = {} }
  lows.was_there = text and #text >= 24 and #text % 8 == 0
  if not lows.was_there then return lows end
  local numbers = unpack_all(text)
  lows.last, lows.last_held, lows.held = numbers[1], numbers[2], numbers[3]
  for at = 4, #numbers - 1, 2 do
    lows.payments[#lows.payments + 1], lows.lows[#lows.lows + 1] = numbers[at], numbers[at + 1]
  end
  return lows
end

local function drop_low(lows, i)
  table.remove(lows.payments, i)
  table.remove(lows.lows, i)
end

local function note_low(lows, debt)
  local all = lows.lows
  lows.last = lows.last + 1
  while #all > 0 and all[#all] >= debt do drop_low(lows, #all) end
  if (lows.payments[#all] or 0) > lows.last_held or debt >= lows.held then return end
  lows.payments[#all + 1] = lows.last
  all[#all + 1] = debt
  if #all <= LOWS_MAX then return end
  local nearest = 1
  for i = 2, #all - 1 do
    if all[i + 1] - all[i] < all[nearest + 1] - all[nearest] then nearest = i end
  end
  all[nearest + 1] = all[nearest]
  drop_low(lows, nearest)
end

local function first_low_after(lows, payment)
  local at = 1
  while at <= #lows.payments and lows.payments[at] <= payment do at = at + 1 end
  return at
end

local function take_off_lows(lows, payment, debt)
  local first, all = first_low_after(lows, payment), lows.lows
  lows.is_changed = true
  for i = first, #all do all[i] = max(0, all[i] - debt) end
  if first > #all then return end
  for i = first - 1, 1, -1 do
    if all[i] >= all[i + 1] then drop_low(lows, i) end
  end
end

-- Reads ARGV[5], six numbers per take or receipt: its index (see `refs`), the indexes of four keys (bucket, set of holds, lows or 0, the
-- hold's own or 0 if it has no id), and how long holds last, in microseconds; negative for a `concurrent` limit.
function holds.read(numbers, texts)
  saved = texts
  for at = 1, #numbers, 6 do
    local bucket, set, lows, own, us = numbers[at + 1], numbers[at + 2], numbers[at + 3], numbers[at + 4], numbers[at + 5]
    local book = books[set]
    if not book then
      book = {
        key = KEYS[set], bucket = bucket, is_count = us < 0,
        stored = 0, ended = 0, dropped = 0, -- number of members in the set, of ended ones, and of ended ones that this call removes
        added = {}, nameless_count = 0, removed = {}, removed_count = 0, lifetime_us = 0,
        lows = lows > 0 and read_lows(lows),
      }
      books[set] = book
    end
    book_of_bucket[bucket] = book
    refs[numbers[at]] = {
      book = book, own = own, us = max(us, -us), is_concurrent = us < 0,
      -- With the bar before it, so that no id equals the plus signs of holds without an id.
      id = own > 0 and string.sub(KEYS[own], #KEYS[bucket] + #'|hold|'),
    }
  end
end

-- The data of the take or receipt at that index (see `refs`); nil if its limit has no holds.
function holds.at(position)
  return refs[position]
end

function holds.of_bucket(key_index)
  return book_of_bucket[key_index]
end

local function count_stored(book, now_us)
  book.stored = tonumber(redis.call('ZCARD', book.key))
  local lows = book.lows
  if not lows or lows.was_there or book.stored == 0 then return end
  -- The lows are lost. The older holds count as if the debt had been 0 since. New payments get higher numbers than those of all holds.
  lows.last, lows.held, lows.payments[1], lows.lows[1] = now_us, math.huge, now_us, 0
end

function holds.live_count(book)
  return book.stored - book.ended - book.removed_count + #book.added
end

-- Gives back `cost` of what a hold has paid. For a token bucket this is exact: at most what is still owed, and at most the lowest debt
-- since the payment.
local function give_back_held(book, state, limit, hold, cost, now_us)
  if not book.lows then
    limit.algorithm.give_back(state, limit, cost, hold.paid_at_us, now_us)
    return
  end
  local low = book.lows.lows[first_low_after(book.lows, hold.payment)] or cost * TICKS
  local debt = min(cost * TICKS, low, limit.algorithm.debt(state, limit, now_us))
  limit.algorithm.take_off(state, limit, debt, now_us)
  take_off_lows(book.lows, hold.payment, debt)
end

-- Must be called before each payment on a limit with holds: records the debt of a token bucket.
function holds.note_payment(ref, state, limit, now_us)
  local lows = ref.book.lows
  if lows and holds.live_count(ref.book) > 0 then note_low(lows, limit.algorithm.debt(state, limit, now_us)) end
end

-- Records that a hold of `cost` has ended. After the last one the lows are reset.
local function release(book, cost)
  local lows = book.lows
  if not lows then return end
  lows.is_changed, lows.held = true, lows.held - cost * TICKS
  if holds.live_count(book) == 0 then lows.last, lows.last_held, lows.held, lows.payments, lows.lows = 0, 0, 0, {}, {} end
end

-- Marks the state as changed, so that it is written even if only time has changed it.
local function note_anew(algorithm, state)
  state.is_redated, state.is_changed = true, true
  algorithm.note(state)
  -- And again at the end of the group, which may have handed the state over to another limit.
  state.is_redated = true
end

-- Opens the bucket's state and brings it to now. Holds that have ended are given back, each as of the time of its end.
function holds.open(book, text, limit, now_us)
  local algorithm = limit.algorithm
  count_stored(book, now_us)
  local due = endings_left > 0 and book.stored > 0
    and redis.call('ZRANGEBYSCORE', book.key, '-inf', digits(now_us), 'LIMIT', '0', digits(endings_left), 'WITHSCORES') or {}
  endings_left = endings_left - #due / 2
  for i = 1, #due, 2 do
    local cost_text, paid_text, payment_text = string.match(due[i], '^(%d+) (%d+) (%d+) ')
    local cost = tonumber(cost_text)
    local at_us = min(now_us, max(tonumber(due[i + 1]), text and algorithm.time_of(text) or 0))
    local state = algorithm.open(text, limit, at_us)
    if not state then return nil end
    local hold = { paid_at_us = tonumber(paid_text), payment = tonumber(payment_text) }
    give_back_held(book, state, limit, hold, cost, at_us)
    book.ended, book.dropped = book.ended + 1, book.ended + 1
    release(book, cost)
    note_anew(algorithm, state)
    text = not algorithm.is_as_new(state) and algorithm.text(state)
  end
  local state = algorithm.open(text, limit, now_us)
  if state and book.ended > 0 then note_anew(algorithm, state) end
  return state
end

-- Opens the bucket of a `concurrent` limit, which is kept nowhere: its use is its number of live holds.
function holds.open_count(book, limit, now_us)
  count_stored(book, now_us)
  book.ended = tonumber(redis.call('ZCOUNT', book.key, '-inf', digits(now_us)))
  book.dropped = min(book.ended, endings_left)
  endings_left = endings_left - book.dropped
  local state = limit.algorithm.open(false, limit, now_us)
  limit.algorithm.pay(state, holds.live_count(book))
  note_anew(limit.algorithm, state)
  return state
end

-- The content of a hold's own key, as the call has left it so far.
local function read_own(own)
  local hold = named[own]
  if hold == nil then
    local text = saved[own]
    local cost, paid, payment, ends = string.match(text or '', '^(%d+) (%d+) (%d+) (%d+)$')
    hold = { settled_until_us = tonumber(string.match(text or '', '^settled (%d+)$')) }
    if cost then
      hold.cost, hold.paid_at_us, hold.payment, hold.ends_at_us = tonumber(cost), tonumber(paid), tonumber(payment), tonumber(ends)
    end
    named[own] = hold
  end
  return hold
end

-- table.concat and not string.format, which cuts an id at its first zero byte.
local function member_of(cost, paid_at_us, payment, id)
  return table.concat({ digits(cost, paid_at_us, payment), id }, ' ')
end

local function has_member(book, member)
  for i = 1, #book.added do
    if book.added[i].member == member then return true end
  end
  return not book.removed[member] and redis.call('ZSCORE', book.key, member)
end

local function live_hold(ref, now_us)
  if ref.own == 0 then return nil end
  local hold = read_own(ref.own)
  if not hold.cost or hold.ends_at_us <= now_us then return nil end
  return has_member(ref.book, member_of(hold.cost, hold.paid_at_us, hold.payment, ref.id)) and hold or nil
end

local function is_settled(ref, now_us)
  return ref.own > 0 and (read_own(ref.own).settled_until_us or 0) > now_us
end

local function note_settled(ref, now_us)
  if ref.own > 0 then named[ref.own] = { settled_until_us = now_us + ref.us, lasts_us = ref.us } end
end

local function forget(book, member)
  -- Members that this call added are not in Redis yet.
  for i = #book.added, 1, -1 do
    if book.added[i].member == member then
      table.remove(book.added, i)
      return
    end
  end
  book.removed[member], book.removed_count = true, book.removed_count + 1
end

local function remove(book, member, cost)
  forget(book, member)
  release(book, cost)
end

-- Whether a payment would open a hold, if its id is not known.
function holds.opens(ref)
  return ref.own > 0 or ref.is_concurrent
end

-- Whether the bucket has room for one more hold.
function holds.has_room(ref)
  return holds.live_count(ref.book) < PER_BUCKET_MAX
end

-- Opens a hold for what was paid. A payment whose id is already known opens none and is final, except on a `concurrent` limit, where the
-- hold is opened without an id.
function holds.add(ref, cost, paid_at_us, now_us)
  local book, ends_at_us = ref.book, now_us + ref.us
  local is_known = live_hold(ref, now_us) or is_settled(ref, now_us)
  local is_nameless = is_known or ref.own == 0
  if is_nameless and not ref.is_concurrent then return end
  book.lifetime_us = max(book.lifetime_us, ref.us)
  local lows, payment = book.lows, 0
  if lows then
    payment = lows.last
    lows.is_changed, lows.last_held, lows.held = true, payment, lows.held + cost * TICKS
  end
  local id = is_nameless and string.rep('+', book.nameless_count) or ref.id
  book.added[#book.added + 1] = {
    member = member_of(cost, paid_at_us, payment, id), ends_at_us = ends_at_us, paid_at_us = paid_at_us, is_nameless = is_nameless,
  }
  if is_nameless then
    book.nameless_count = book.nameless_count + 1
    return
  end
  local hold = read_own(ref.own)
  hold.cost, hold.paid_at_us, hold.payment, hold.ends_at_us, hold.lasts_us = cost, paid_at_us, payment, ends_at_us, ref.us
  hold.is_gone, hold.settled_until_us = nil, nil
end

-- Settles the hold at what was used. Returns what was held (or FOUND_NONE, FOUND_SETTLED) and the hits that could not be recorded.
function holds.settle(ref, state, limit, used, now_us)
  local hold = live_hold(ref, now_us)
  if not hold then
    if is_settled(ref, now_us) then return FOUND_SETTLED, 0 end
    note_settled(ref, now_us)
    if ref.is_concurrent then return FOUND_NONE, 0 end
    holds.note_payment(ref, state, limit, now_us)
    return FOUND_NONE, limit.algorithm.post_pay(state, limit, used, now_us)
  end
  if ref.is_concurrent then used = 0 end
  if used < hold.cost then give_back_held(ref.book, state, limit, hold, hold.cost - used, now_us) end
  remove(ref.book, member_of(hold.cost, hold.paid_at_us, hold.payment, ref.id), hold.cost)
  note_settled(ref, now_us)
  if used <= hold.cost then return hold.cost, 0 end
  holds.note_payment(ref, state, limit, now_us)
  return hold.cost, limit.algorithm.post_pay(state, limit, used - hold.cost, now_us)
end

-- The member of a live hold without an id, paid at that time. Several are distinguished by plus signs; some may have ended.
local function nameless(book, member)
  for _ = 1, SAME_MOMENT_MAX do
    if redis.call('ZSCORE', book.key, member) and not book.removed[member] then return member end
    member = table.concat({ member, '+' })
  end
  return nil
end

-- Gives back a payment and ends its hold. If the hold has ended or was settled before, nothing is left to give back.
function holds.close(ref, state, limit, cost, paid_at_us, now_us)
  local hold = holds.opens(ref) and live_hold(ref, now_us)
  if hold and hold.paid_at_us == paid_at_us then
    give_back_held(ref.book, state, limit, hold, cost, now_us)
    remove(ref.book, member_of(hold.cost, hold.paid_at_us, hold.payment, ref.id), hold.cost)
    named[ref.own] = { is_gone = true }
    return
  end
  local member = ref.is_concurrent and nameless(ref.book, member_of(cost, paid_at_us, 0, ''))
  if member then remove(ref.book, member, cost) end
  -- The payment opened no hold if it had no id, or if another payment's hold has its id.
  if member or hold or not holds.opens(ref) then limit.algorithm.give_back(state, limit, cost, paid_at_us, now_us) end
end

-- Microseconds after which a caller that `concurrent` refused may try again (waitForHold in src/engine/algorithms/holds.ts).
function holds.wait_us(ref, now_us)
  local book = ref.book
  local count = holds.live_count(book)
  if count == 0 then return nil end
  local ends_at_us, paid_at_us
  local stored = redis.call('ZRANGE', book.key, digits(book.ended), digits(book.ended + book.removed_count), 'WITHSCORES')
  for i = 1, #stored, 2 do
    if not book.removed[stored[i]] then
      ends_at_us, paid_at_us = tonumber(stored[i + 1]), tonumber(string.match(stored[i], '^%d+ (%d+)'))
      break
    end
  end
  for i = 1, #book.added do
    local added = book.added[i]
    if not ends_at_us or added.ends_at_us < ends_at_us then ends_at_us, paid_at_us = added.ends_at_us, added.paid_at_us end
  end
  local age_us = max(0, now_us - paid_at_us)
  return min(max(1, ends_at_us - now_us), max(WAIT_US_MIN, floor(age_us / count)))
end

-- Extends the lifetime of the set to at least that long, to within a millisecond of rounding; returns its lifetime in milliseconds.
local function keep_set(key, lifetime_us, extra_ms)
  local left_ms, ms = redis.call('PTTL', key), needed_ms(lifetime_us) + extra_ms
  if left_ms + 1 >= ms then return left_ms end
  redis.call('PEXPIRE', key, digits(ms))
  return ms
end

local function write_lows(lows, lifetime_ms)
  local numbers = { lows.last, lows.last_held, lows.held }
  for i = 1, #lows.lows do numbers[i * 2 + 2], numbers[i * 2 + 3] = lows.payments[i], lows.lows[i] end
  redis.call('SET', KEYS[lows.place], pack_all(numbers), 'PX', digits(lifetime_ms))
end

local function write_book(book, bucket, extra_ms)
  if book.dropped > 0 then redis.call('ZREMRANGEBYRANK', book.key, '0', digits(book.dropped - 1)) end
  for member in pairs(book.removed) do redis.call('ZREM', book.key, member) end
  for i = 1, #book.added do
    local added = book.added[i]
    local member = added.member
    while redis.call('ZADD', book.key, 'NX', digits(added.ends_at_us), member) == 0 and added.is_nameless do
      member = table.concat({ member, '+' })
    end
  end
  local lows, is_live = book.lows, holds.live_count(book) > 0
  if not is_live then
    if lows and lows.was_there then redis.call('DEL', KEYS[lows.place]) end
    return
  end
  -- The bucket of a `concurrent` limit has no key whose lifetime would count.
  local lifetime_us = max(book.lifetime_us, book.is_count and 0 or bucket.lifetime_us)
  if lifetime_us == 0 and not lows then return end
  local left_ms = keep_set(book.key, lifetime_us, extra_ms)
  -- Lows of payments that were undone must not be written.
  if lows and (lows.is_changed or bucket.is_changed) then write_lows(lows, left_ms) end
end

-- Writes everything that the call has changed. `states` are the final states of the buckets, by the index of their keys.
function holds.write_all(states, extra_ms)
  for own, hold in pairs(named) do
    if hold.is_gone then
      redis.call('DEL', KEYS[own])
    elseif hold.lasts_us then
      local text = hold.settled_until_us and 'settled ' .. digits(hold.settled_until_us)
        or string.format('%s %s', digits(hold.cost, hold.paid_at_us, hold.payment), digits(hold.ends_at_us))
      redis.call('SET', KEYS[own], text, 'PX', digits(needed_ms(hold.lasts_us) + extra_ms))
    end
  end
  for _, book in pairs(books) do
    local bucket = states[book.bucket]
    if bucket then write_book(book, bucket, extra_ms) end
  end
end

return holds
