-- Holds: payments that wait for their settlement, as src/algorithms/holds.ts says.
-- state     beside the bucket's own key: `<key>|holds`, a sorted set of the live holds "cost paid_at_us payment |id" by the
--           time at which they end; `<key>|hold|<id>` for each, a string "cost paid_at_us payment ends_at_us", or
--           "settled until_us", when it is forgotten; and of a token bucket `<key>|lows`, doubles (see `lows`)
-- lifetime  of the set and the lows as long as the bucket's, at least until the last hold ends, and never made shorter; of a
--           hold until it ends, settled for as long again
-- Redis may evict any of these keys. Without the lows nothing is given back of the holds before; a hold without its member in the
-- set is none any more.
-- Nothing is written before `write_all`. The books and names of a call are kept from group to group.
local holds = {}

local PER_BUCKET_MAX = 10000
-- Holds that the call may still end, in all buckets together; the rest ends in later calls (bench/store/holds.mjs).
local endings_left = 128
local WAIT_US_MIN = 1000000
local SAME_MOMENT_MAX = 64 -- holds without a name that are looked for: as many as one call can open
local FOUND_NONE, FOUND_SETTLED = -1, -2

-- What ARGV[5] says of each take and receipt with holds, by where it stands in `groups` (a receipt below 0).
local refs, book_of_bucket, books, named = {}, {}, {}, {}
local saved -- what the call's keys hold, by their place

-- How low a token bucket's debt was before its payments, as src/algorithms/debt-lows.ts keeps it: the number of the last payment, of
-- the last one that opened a hold, what all holds can give back, then a number and a low each.
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

-- Six numbers each: where it stands, the bucket's key, the key of its holds, that of its lows (0: it has none), the hold's own
-- (0: it has no name), and how long holds last, in microseconds; below 0 if the limit counts holds.
function holds.read(numbers, texts)
  saved = texts
  for at = 1, #numbers, 6 do
    local bucket, set, lows, own, us = numbers[at + 1], numbers[at + 2], numbers[at + 3], numbers[at + 4], numbers[at + 5]
    local book = books[set]
    if not book then
      book = {
        key = KEYS[set], bucket = bucket, is_count = us < 0,
        stored = 0, ended = 0, dropped = 0, -- members of the set, those that have ended, those of them that this call removes
        added = {}, nameless_count = 0, removed = {}, removed_count = 0, lifetime_us = 0,
        lows = lows > 0 and read_lows(lows),
      }
      books[set] = book
    end
    book_of_bucket[bucket] = book
    refs[numbers[at]] = {
      book = book, own = own, us = max(us, -us), is_concurrent = us < 0,
      -- With the bar before it, so that no id reads like the plus signs of holds without a name.
      id = own > 0 and string.sub(KEYS[own], #KEYS[bucket] + #'|hold|'),
    }
  end
end

-- What speaks of holds in the take or receipt that stands there; nil if nothing does.
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
  -- The lows are lost. New payments get numbers beyond those of all holds, which count as if nothing had been owed since.
  lows.last, lows.held, lows.payments[1], lows.lows[1] = now_us, math.huge, now_us, 0
end

local function live_count(book)
  return book.stored - book.ended - book.removed_count + #book.added
end

-- Gives back `cost` of what a hold has paid. Of a token bucket that is exact: as much of it as is owed still, and was at any
-- time since.
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

-- A payment on a limit with holds is about to be made.
function holds.note_payment(ref, state, limit, now_us)
  local lows = ref.book.lows
  if lows and live_count(ref.book) > 0 then note_low(lows, limit.algorithm.debt(state, limit, now_us)) end
end

-- So much of what is held has gone, which may have been the last.
local function release(book, cost)
  local lows = book.lows
  if not lows then return end
  lows.is_changed, lows.held = true, lows.held - cost * TICKS
  if live_count(book) == 0 then lows.last, lows.last_held, lows.held, lows.payments, lows.lows = 0, 0, 0, {}, {} end
end

-- Notes the state as it stands, so that it is written even if only time has changed it.
local function note_anew(algorithm, state)
  state.is_redated, state.is_changed = true, true
  algorithm.note(state)
end

-- Opens the bucket's state as its algorithm does, and gives back the holds that have ended, each at the time it did.
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

-- Opens a bucket that counts holds, which is kept nowhere: it is as full as it has holds.
function holds.open_count(book, limit, now_us)
  count_stored(book, now_us)
  book.ended = tonumber(redis.call('ZCOUNT', book.key, '-inf', digits(now_us)))
  book.dropped = min(book.ended, endings_left)
  endings_left = endings_left - book.dropped
  local state = limit.algorithm.open(false, limit, now_us)
  limit.algorithm.pay(state, live_count(book))
  note_anew(limit.algorithm, state)
  return state
end

-- The hold's own key as the call has left it so far.
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

-- Of an id's bytes `string.format` keeps those before a zero only.
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
  -- What this very call has added is not there yet.
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

-- Whether a payment may open a hold.
function holds.opens(ref)
  return ref.own > 0 or ref.is_concurrent
end

-- Whether the bucket has room for one more.
function holds.has_room(ref)
  return live_count(ref.book) < PER_BUCKET_MAX
end

-- Opens a hold for what was paid. A payment under a known id is final, but on what counts holds.
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

-- Settles the hold at what was used; returns what was held (or FOUND_) and the hits that the state could not hold.
function holds.settle(ref, state, limit, used, now_us)
  local hold = live_hold(ref, now_us)
  if not hold then
    if is_settled(ref, now_us) then return FOUND_SETTLED, 0 end
    if ref.is_concurrent then return FOUND_NONE, 0 end
    note_settled(ref, now_us)
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

-- A hold without a name that was paid at that moment. Several are told apart by plus signs, and some may have ended.
local function nameless(book, member)
  for _ = 1, SAME_MOMENT_MAX do
    if redis.call('ZSCORE', book.key, member) and not book.removed[member] then return member end
    member = table.concat({ member, '+' })
  end
  return nil
end

-- Ends the hold of a payment that is given back, with what it has paid. If there is none any more, nothing is left to give back.
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
  -- Where another's hold has the id, this payment was final and has none of its own; so it is without an id.
  if member or hold or not holds.opens(ref) then limit.algorithm.give_back(state, limit, cost, paid_at_us, now_us) end
end

-- When a caller who finds all places taken may try again (src/algorithms/holds.ts).
function holds.wait_us(ref, now_us)
  local book = ref.book
  local count = live_count(book)
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

-- Keeps the set for that long at least, give or take a millisecond of rounding; returns how many milliseconds it has left.
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
  local lows, is_live = book.lows, live_count(book) > 0
  if not is_live then
    if lows and lows.was_there then redis.call('DEL', KEYS[lows.place]) end
    return
  end
  -- A bucket that counts holds is kept nowhere else.
  local lifetime_us = max(book.lifetime_us, book.is_count and 0 or bucket.lifetime_us)
  if lifetime_us == 0 and not lows then return end
  local left_ms = keep_set(book.key, lifetime_us, extra_ms)
  -- What was noted of payments counts only if they stand.
  if lows and (lows.is_changed or bucket.is_changed) then write_lows(lows, left_ms) end
end

-- Writes what the call has changed. `states` are the buckets as it leaves them, by the place of their keys.
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
