-- Holds: payments that wait for their settlement, as src/engine/algorithms/holds.ts says.
-- ARGV[4]   six numbers per take: the index of its first number in ARGV[3], the indexes of four keys (bucket, set of holds, lows or 0,
--           the hold's own or 0 if it has no id), and how long holds last, in microseconds; negative for a `concurrent` limit
-- state     besides the bucket's key: `<key>|holds`, a sorted set of the live holds "cost paid_at_us payment |id" by the time of their
--           end (a hold without an id has plus signs or nothing in place of `|id`); `<key>|hold|<id>` per hold with an id, a string
--           "cost paid_at_us payment ends_at_us", or after settlement "settled until_us" (when it may be forgotten); and for a token
--           bucket `<key>|lows`, as debt_lows.lua says
-- lifetime  set and lows: as the bucket's, at least until the last hold ends, never shortened; a hold's key: until the hold ends, after
--           settlement as long again
-- Redis may evict any of these keys. If the lows are lost, nothing is given back for older holds. A hold without its member in the set
-- does not exist.
-- Nothing is written before `write_all`. All groups of a call share its books and names.
holds = {}

local PER_BUCKET_MAX = 10000
-- How many holds this call may still end, in all buckets together; the rest ends in later calls (bench/store/holds.mjs).
local endings_left = 32
local WAIT_US_MIN = 1000000
local LOOKS_MAX = 4 -- holds that the wait of a refusal considers
local SAME_MOMENT_MAX = 64 -- most members tried to find a hold without an id: as many as one call can open
local FOUND_NONE, FOUND_SETTLED = -1, -2

-- What ARGV[4] says of a take, by where its numbers begin in `groups`; what is known of a bucket's holds, by the index of its key; and what
-- the call has left in holds' own keys, by their index.
local refs, books, named = {}, {}, {}
holds.of_take = refs

-- FILE debt_lows.lua

for from = 1, #ARGV[4], 48 do
  local take, bucket, set, lows, own, us = unpack_numbers('<dddddd', ARGV[4], from)
  local book = books[bucket]
  if not book then
    book = {
      key = KEYS[set], bucket = bucket, is_count = us < 0, is_open = false, lows = lows > 0 and read_lows(lows), lifetime_us = 0,
      stored = 0, ended = 0, dropped = 0, -- number of members in the set, of ended ones, and of ended ones that this call removes
      added = {}, added_count = 0, nameless_count = 0, removed = {}, removed_count = 0, -- live holds, by their members
    }
    books[bucket] = book
  end
  refs[take * 8 - 7] = {
    book = book, own = own, us = max(us, -us), is_concurrent = us < 0,
    -- With the bar before it, so that no id equals the plus signs of holds without an id.
    id = own > 0 and string.sub(KEYS[own], #KEYS[bucket] + #'|hold|'),
  }
end

local function live_count(book)
  return book.stored - book.ended - book.removed_count + book.added_count
end

-- Gives back `cost` of what a hold has paid. For a token bucket this is exact: at most what is still owed, and at most the lowest debt
-- since the payment.
local function give_back_held(book, slot, limit, hold, cost, at_us)
  if not book.lows then
    change(slot, limit, MODE_GIVE_BACK, cost, hold.paid_at_us, at_us)
    return
  end
  local low = book.lows.lows[first_low_after(book.lows, hold.payment)] or cost * TICKS
  local debt = min(cost * TICKS, low, working[slot + USED] - working[slot + REST])
  change(slot, limit, MODE_TAKE_OFF, debt, 0, at_us)
  take_off_lows(book.lows, hold.payment, debt)
end

-- Must be called before each payment on a limit with holds: records the debt of a token bucket.
function holds.note_payment(ref, debt)
  local lows = ref.book.lows
  if lows and live_count(ref.book) > 0 then note_low(lows, debt) end
end

local function debt_in(slot)
  return working[slot + USED] - working[slot + REST]
end

-- Records that a hold of `cost` has ended. After the last one the lows are reset.
local function release(book, cost)
  local lows = book.lows
  if not lows then return end
  lows.is_changed, lows.held = true, lows.held - cost * TICKS
  if live_count(book) == 0 then lows.last, lows.last_held, lows.held, lows.payments, lows.lows = 0, 0, 0, {}, {} end
end

local function count_stored(book)
  book.is_open, book.stored = true, tonumber(call('ZCARD', book.key))
  local lows = book.lows
  if not lows or lows.was_there or book.stored == 0 then return end
  -- The lows are lost. The older holds count as if the debt had been 0 since. New payments get higher numbers than those of all holds.
  lows.last, lows.held, lows.payments[1], lows.lows[1] = now_us, math.huge, now_us, 0
end

-- Opens the bucket of a `concurrent` limit, which is kept nowhere: its use is its number of live holds.
local function open_count(book)
  book.ended = tonumber(call('ZCOUNT', book.key, '-inf', format(ONE, now_us)))
  book.dropped = min(book.ended, endings_left)
  endings_left = endings_left - book.dropped
  local count = live_count(book)
  texts[book.bucket] = count > 0 and pack_numbers('<dd', count * TICKS, now_us)
end

-- Opens a book. Holds that have ended are given back, each as of the time of its end, as a group of their own would.
local function open(book, limit)
  count_stored(book)
  if book.is_count then return open_count(book) end
  local due = endings_left > 0 and book.stored > 0
    and call('ZRANGEBYSCORE', book.key, '-inf', format(ONE, now_us), 'LIMIT', '0', format(ONE, endings_left), 'WITHSCORES') or {}
  if #due == 0 then return end
  endings_left = endings_left - #due / 2
  local algorithm, amount, burst, seconds, debt_max = unpack_numbers('<ddddd', limits, limit * 40 - 39)
  local text, used, at_us, rest, is_sound, is_redated = texts[book.bucket], 0, 0, 0, true, false
  if text == nil then text = saved[book.bucket] end
  if text then
    -- EACH read
    if not is_sound then used, at_us, rest, damaged = 0, 0, 0, damaged + 1 end
  end
  working[USED], working[AT_US], working[REST] = used, at_us, rest
  for i = 1, #due, 2 do
    local cost_text, paid_text, payment_text = match(due[i], '^(%d+) (%d+) (%d+) ')
    local cost, ended_us = tonumber(cost_text), min(now_us, max(tonumber(due[i + 1]), working[AT_US]))
    change(0, limit, MODE_ADVANCE, 0, 0, ended_us)
    local hold = { paid_at_us = tonumber(paid_text), payment = tonumber(payment_text) }
    give_back_held(book, 0, limit, hold, cost, ended_us)
    book.ended, book.dropped = book.ended + 1, book.dropped + 1
    release(book, cost)
  end
  change(0, limit, MODE_ADVANCE, 0, 0, now_us)
  used, at_us, rest, text = working[USED], working[AT_US], working[REST], false
  local remaining, reset_us = 0, 0
  -- EACH write
  -- EACH report
  texts[book.bucket], lifetimes[book.bucket], book.have_ended = text, reset_us, true
end

-- Whether the group that opened the book has ended holds: its bucket is written, though the group may change nothing.
function holds.have_ended(key)
  local book = books[key]
  local have_ended = book and book.have_ended
  if have_ended then book.have_ended = false end
  return have_ended
end

-- Opens the books of a group, before it is judged. False if one of them has no room for a hold that the group may open.
function holds.begin(first, last)
  for take = first, last, 48 do
    local key, limit = unpack_numbers('<dd', groups, take)
    local book = books[key]
    if book and not book.is_open then open(book, limit) end
  end
  for take = first, last, 48 do
    local ref, mode = refs[take], unpack_numbers('<d', groups, take + 32)
    local may_open = ref and mode == MODE_PAY and (ref.own > 0 or ref.is_concurrent)
    if may_open and live_count(ref.book) >= PER_BUCKET_MAX then return false end
  end
  return true
end

-- The content of a hold's own key, as the call has left it so far.
local function read_own(own)
  if not named[own] then
    local text = saved[own] or ''
    local cost, paid, payment, ends = match(text, '^(%d+) (%d+) (%d+) (%d+)$')
    named[own] = {
      cost = tonumber(cost), paid_at_us = tonumber(paid), payment = tonumber(payment), ends_at_us = tonumber(ends),
      settled_until_us = tonumber(match(text, '^settled (%d+)$')),
    }
  end
  return named[own]
end

-- table.concat and not string.format, which cuts an id at its first zero byte.
local function member_of(cost, paid_at_us, payment, id)
  return table.concat({ format(THREE, cost, paid_at_us, payment), id }, ' ')
end

-- The live hold of that id, and its member; nil if there is none.
local function live_hold(ref)
  if ref.own == 0 then return nil end
  local hold = read_own(ref.own)
  if not hold.cost or hold.ends_at_us <= now_us then return nil end
  local book, member = ref.book, member_of(hold.cost, hold.paid_at_us, hold.payment, ref.id)
  if book.added[member] or (not book.removed[member] and call('ZSCORE', book.key, member)) then return hold, member end
end

local function is_settled(ref)
  return ref.own > 0 and (read_own(ref.own).settled_until_us or 0) > now_us
end

local function note_settled(ref)
  if ref.own > 0 then named[ref.own] = { settled_until_us = now_us + ref.us, lasts_us = ref.us } end
end

-- Ends a live hold.
local function remove(book, member, cost)
  if book.added[member] then
    book.added[member], book.added_count = nil, book.added_count - 1
  else
    book.removed[member], book.removed_count = true, book.removed_count + 1
  end
  release(book, cost)
end

-- Opens a hold for what was paid; true if it did. A payment whose id is already known opens none and is final, except on a `concurrent`
-- limit, where the hold is opened without an id.
local function add(ref, cost, paid_at_us)
  local book, ends_at_us = ref.book, now_us + ref.us
  local is_nameless = ref.own == 0 or live_hold(ref) or is_settled(ref)
  if is_nameless and not ref.is_concurrent then return false end
  book.lifetime_us = max(book.lifetime_us, ref.us)
  local lows, payment = book.lows, 0
  if lows then
    payment = lows.last
    lows.is_changed, lows.last_held, lows.held = true, payment, lows.held + cost * TICKS
  end
  local member = member_of(cost, paid_at_us, payment, is_nameless and rep('+', book.nameless_count) or ref.id)
  book.added[member] =
    { cost = cost, paid_at_us = paid_at_us, payment = payment, ends_at_us = ends_at_us, is_nameless = is_nameless }
  book.added_count = book.added_count + 1
  if is_nameless then
    book.nameless_count = book.nameless_count + 1
  else
    named[ref.own] = { cost = cost, paid_at_us = paid_at_us, payment = payment, ends_at_us = ends_at_us, lasts_us = ref.us }
  end
  return true
end

-- Opens holds for the group's payments, and tells peeks how many there are.
function holds.conclude(first, last, to_out)
  for take = first, last, 48 do
    local answer, ref, mode, cost = take / 8 + to_out, refs[take], unpack_numbers('<dd', groups, take + 32)
    if ref and mode == MODE_PAY and out[answer + 4] > 0 and add(ref, cost, out[answer + 4]) then
      out[answer] = out[answer] + STATUS_OPENED
    end
  end
  for take = first, last, 48 do
    local ref, mode = refs[take], unpack_numbers('<d', groups, take + 32)
    if ref and mode == MODE_PEEK then out[take / 8 + to_out + 4] = live_count(ref.book) end
  end
end

-- Settles the hold at what was used. Returns what was held (or FOUND_NONE, FOUND_SETTLED) and the hits that could not be recorded.
function holds.settle(ref, slot, limit, used)
  local found, beyond = FOUND_NONE, used
  local hold, member = live_hold(ref)
  if hold then
    if ref.is_concurrent then used = 0 end
    found, beyond = hold.cost, used - hold.cost
    if beyond < 0 then give_back_held(ref.book, slot, limit, hold, -beyond, now_us) end
    remove(ref.book, member, hold.cost)
  elseif is_settled(ref) then
    return FOUND_SETTLED, 0
  end
  note_settled(ref)
  if ref.is_concurrent or (hold and beyond <= 0) then return found, 0 end
  holds.note_payment(ref, debt_in(slot))
  return found, change(slot, limit, MODE_POST_PAID, beyond, 0, now_us)
end

-- The member of a live hold without an id, paid at that time, that ends at `ends_at_us`. Several are distinguished by plus signs; some
-- may have ended, and an edit of the rule has others end at another time.
local function nameless(book, member, ends_at_us)
  for _ = 1, SAME_MOMENT_MAX do
    if tonumber(call('ZSCORE', book.key, member) or 0) == ends_at_us and not book.removed[member] then return member end
    member = table.concat({ member, '+' })
  end
  return nil
end

-- Gives back a payment and ends its hold. If the hold has ended or was settled before, nothing is left to give back.
function holds.close(ref, slot, limit, cost, paid_at_us)
  local hold, member = live_hold(ref)
  if hold and hold.paid_at_us == paid_at_us then
    give_back_held(ref.book, slot, limit, hold, cost, now_us)
    remove(ref.book, member, hold.cost)
    named[ref.own] = { is_gone = true }
    return
  end
  member = ref.is_concurrent and nameless(ref.book, member_of(cost, paid_at_us, 0, ''), paid_at_us + ref.us)
  if member then remove(ref.book, member, cost) end
  -- The payment opened no hold if it had no id, or if another payment's hold has its id before its own could have ended.
  local is_of_another = hold and now_us < paid_at_us + ref.us
  if member or is_of_another or (ref.own == 0 and not ref.is_concurrent) then change(slot, limit, MODE_GIVE_BACK, cost, paid_at_us, now_us) end
end

local function ends_before(one, other)
  return one.ends_at_us < other.ends_at_us
end

-- At least the first `count` live holds of a book, those that end soonest first; all if there are fewer.
local function first_holds(book, count)
  local first = {}
  local stored = call(
    'ZRANGE', book.key, format(ONE, book.ended), format(ONE, book.ended + book.removed_count + count - 1), 'WITHSCORES'
  )
  for i = 1, #stored, 2 do
    if not book.removed[stored[i]] then
      local cost, paid, payment = match(stored[i], '^(%d+) (%d+) (%d+)')
      local ends_at_us = tonumber(stored[i + 1])
      first[#first + 1] =
        { cost = tonumber(cost), paid_at_us = tonumber(paid), payment = tonumber(payment), ends_at_us = ends_at_us }
    end
  end
  if book.added_count > 0 then
    for _, added in pairs(book.added) do first[#first + 1] = added end
    table.sort(first, ends_before)
  end
  return first
end

-- The wait of a take that is over, of which `wait_us` is known without holds (tellWait in src/engine/algorithms/holds.ts).
function holds.wait_us(ref, wait_us, limit, cost, used, at_us, rest)
  local book = ref.book
  local count = live_count(book)
  if count == 0 then return wait_us end
  local first = first_holds(book, ref.is_concurrent and 1 or LOOKS_MAX + 1)
  if ref.is_concurrent then
    local age_us = max(0, now_us - first[1].paid_at_us)
    return min(max(1, first[1].ends_at_us - now_us), max(WAIT_US_MIN, floor(age_us / count)))
  end
  local algorithm, amount, burst, seconds, debt_max = unpack_numbers('<ddddd', limits, limit * 40 - 39)
  local outcome = OUTCOME_OVER
  for looks = 1, #first do
    local hold = first[looks]
    local ends_in_us = max(1, hold.ends_at_us - now_us)
    if looks > LOOKS_MAX then wait_us = min(wait_us, ends_in_us) end
    if wait_us <= ends_in_us then break end
    if book.lows then
      used = used - min(hold.cost * TICKS, book.lows.lows[first_low_after(book.lows, hold.payment)] or EXACT_MAX)
    elseif hold.paid_at_us >= at_us then -- what was paid in an earlier window is not given back
      used = used - hold.cost
    end
    wait_us = 0
    -- EACH judge
    wait_us = max(ends_in_us, wait_us)
  end
  return wait_us
end

local function needed_ms(lifetime_us)
  return max(1, ceil(min(WAIT_US_MAX, lifetime_us) / 1000)) + lifetime_extra_ms
end

-- Extends the lifetime of the set to at least that long, to within a millisecond of rounding; returns its lifetime in milliseconds.
local function keep_set(key, lifetime_us)
  local left_ms, ms = call('PTTL', key), needed_ms(lifetime_us)
  if left_ms + 1 >= ms then return left_ms end
  call('PEXPIRE', key, format(ONE, ms))
  return ms
end

local function write_members(book)
  if book.dropped > 0 then call('ZREMRANGEBYRANK', book.key, '0', format(ONE, book.dropped - 1)) end
  for member in pairs(book.removed) do call('ZREM', book.key, member) end
  for member, added in pairs(book.added) do
    while call('ZADD', book.key, 'NX', format(ONE, added.ends_at_us), member) == 0 and added.is_nameless do
      member = table.concat({ member, '+' })
    end
  end
end

local function write_book(book)
  write_members(book)
  local lows = book.lows
  if live_count(book) <= 0 then
    if lows and lows.was_there then call('DEL', KEYS[lows.place]) end
    return
  end
  local lifetime_us = max(book.lifetime_us, lifetimes[book.bucket] or 0)
  if lifetime_us == 0 and not lows then return end
  local left_ms = keep_set(book.key, lifetime_us)
  -- Lows of payments that were undone must not be written.
  if lows and (lows.is_changed or texts[book.bucket] ~= nil) then write_lows(lows, left_ms) end
end

-- Adds to the reply, per bucket whose holds have ended, the index of its key and their number; returns the size of the reply.
function holds.report(size_of_out)
  for key, book in pairs(books) do
    if book.dropped > 0 then
      out[size_of_out + 1], out[size_of_out + 2], size_of_out = key, book.dropped, size_of_out + 2
    end
    -- The bucket of a `concurrent` limit is kept nowhere.
    if book.is_count then lifetimes[key] = nil end
  end
  return size_of_out
end

-- Writes everything that the call has changed.
function holds.write_all()
  for own, hold in pairs(named) do
    if hold.is_gone then
      call('DEL', KEYS[own])
    elseif hold.lasts_us then
      local text = hold.settled_until_us and format('settled %s', format(ONE, hold.settled_until_us))
        or format('%s %s', format(THREE, hold.cost, hold.paid_at_us, hold.payment), format(ONE, hold.ends_at_us))
      call('SET', KEYS[own], text, 'PX', format(ONE, needed_ms(hold.lasts_us)))
    end
  end
  for _, book in pairs(books) do
    if book.is_open then write_book(book) end
  end
end
