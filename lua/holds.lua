-- Holds: payments that wait for their settlement. The twin of src/engine/algorithms/holds.ts. Only calls some of whose
-- limits have holds are sent to the script that includes this file.
-- ARGV[4]   six numbers per take: the index of its first number in ARGV[3], the indexes of four keys (bucket, set of
--           holds, lows or 0, the hold's own or 0 if it has no id), and how long holds last, in microseconds; negative
--           for a `concurrent` limit
-- state     in addition to the bucket's key: `<key>|holds`, a sorted set of live holds "cost paid_at_us payment |id"
--           by the time of their end (a hold without an id has plus signs or nothing in place of `|id`);
--           `<key>|hold|<id>` per hold with an id, a string "cost paid_at_us payment ends_at_us", or after settlement
--           "settled until_us" (when it may be forgotten); and for a token bucket `<key>|lows` (debt_lows.lua)
-- lifetime  set and lows: as the bucket's, at least until the last hold ends, never shortened; a hold's key: until the
--           hold ends, after settlement as long again
-- Redis may evict any of these keys. If the lows are lost, nothing is given back for older holds. A hold without its
-- member in the set does not exist.
-- Nothing is written before `write_all`. All groups of a call share its books and names.

local function open_holds(packed, KEYS, now_us, lifetime_extra_ms, limits, groups, saved, texts, lifetimes, reply)
  local THREE = table.concat({ ONE, ONE, ONE }, ' ')
  local lows_steps = debt_lows()
  -- How many holds this call may still end, in all buckets together; the rest ends in later calls
  -- (bench/store/holds.mjs).
  local endings_left = 32

  -- What ARGV[4] says of a take, by where its numbers begin in `groups`; what is known of a bucket's holds, by the
  -- index of its key; and what the call has left in holds' own keys, by their index.
  local of_take, books, named = {}, {}, {}

  for from = 1, #packed, 48 do
    local take, bucket, set, lows, own, us = unpack_numbers('<dddddd', packed, from)
    local book = books[bucket]
    if not book then
      book = {
        key = KEYS[set], bucket = bucket, is_count = us < 0, is_open = false, lifetime_us = 0,
        lows_key = KEYS[lows], lows = lows > 0 and lows_steps.read(saved[lows]),
        stored = 0, only = nil, ended = 0, dropped = 0, -- members in the set, ended ones, and ended ones that this call removes
        added = {}, added_count = 0, nameless_count = 0, removed = {}, removed_count = 0, -- live holds, by their members
      }
      books[bucket] = book
    end
    of_take[take * 8 - 7] = {
      book = book, own = own, us = max(us, -us), is_concurrent = us < 0,
      -- With the bar before it, so that no id equals the plus signs of holds without an id.
      id = own > 0 and string.sub(KEYS[own], #KEYS[bucket] + #'|hold|'),
    }
  end

  local function live_count(book)
    return book.stored - book.ended - book.removed_count + book.added_count
  end

  -- A hold as its own key or its member of the set has it; without a cost if the text is another one.
  local function read_hold(text)
    local cost, paid, payment, ends = string.match(text, '^(%d+) (%d+) (%d+) ?(%d*)')
    return { cost = tonumber(cost), paid_at_us = tonumber(paid), payment = tonumber(payment), ends_at_us = tonumber(ends) }
  end

  -- Gives back `cost` of what a hold has paid. For a token bucket this is exact: at most what is still owed, and at
  -- most the lowest debt since the payment.
  local function give_back_held(book, bucket, limit, hold, cost, at_us)
    local lows, debt = book.lows, cost * TICKS
    if not lows then
      limit.steps.give_back(bucket, limit, cost, hold.paid_at_us, at_us)
      return
    end
    debt = min(debt, lows_steps.since(lows, hold.payment) or debt, bucket.used - bucket.refill)
    limit.steps.take_off(bucket, debt, at_us)
    lows_steps.take_off(lows, hold.payment, debt)
  end

  -- Must be called before each payment on a limit with holds: records the debt of a token bucket.
  local function note_payment(hold, bucket)
    local lows = hold.book.lows
    if lows and live_count(hold.book) > 0 then lows_steps.note_payment(lows, bucket.used - bucket.refill) end
  end

  -- Records that a hold of `cost` has ended. After the last one the lows are reset.
  local function release(book, cost)
    local lows = book.lows
    if not lows then return end
    lows.is_changed, lows.held = true, lows.held - cost * TICKS
    if live_count(book) == 0 then lows.last, lows.last_held, lows.held, lows.payments, lows.debts = 0, 0, 0, {}, {} end
  end

  -- Reads how many holds the set has. Returns when the first one ends. Two members say whether there is at most one,
  -- which spares the commands that would ask more about it.
  local function count_stored(book)
    local first = call('ZRANGE', book.key, '0', '1', 'WITHSCORES')
    local lows = book.lows
    book.is_open, book.stored, book.only = true, #first / 2, first[1] or ''
    if #first > 2 then book.stored, book.only = tonumber(call('ZCARD', book.key)), nil end
    if lows and not lows.was_there and book.stored > 0 then
      -- The lows are lost. The older holds count as if the debt had been 0 since. New payments get higher numbers than
      -- those of all holds.
      lows.last, lows.held, lows.payments[1], lows.debts[1] = now_us, math.huge, now_us, 0
    end
    return tonumber(first[2])
  end

  -- Opens the bucket of a `concurrent` limit, which is kept nowhere: its use is its number of live holds.
  local function open_count(book, first_ends_us)
    if first_ends_us and first_ends_us <= now_us then
      book.ended = tonumber(call('ZCOUNT', book.key, '-inf', format(ONE, now_us)))
      book.dropped = min(book.ended, endings_left)
      endings_left = endings_left - book.dropped
    end
    local count = live_count(book)
    texts[book.bucket] = count > 0 and pack_numbers('<dd', count * TICKS, now_us)
  end

  -- Opens a book. Holds that have ended are given back, each as of the time of its end, as a group of their own would.
  local function open(book, limit)
    local first_ends_us, steps, text = count_stored(book), limit.steps, texts[book.bucket]
    if book.is_count then return open_count(book, first_ends_us) end
    if endings_left == 0 or not first_ends_us or first_ends_us > now_us then return end
    local due = call('ZRANGEBYSCORE', book.key, '-inf', format(ONE, now_us), 'LIMIT', '0', format(ONE, endings_left), 'WITHSCORES')
    endings_left = endings_left - #due / 2
    local state = { used = 0, at_us = 0, previous = 0, refill = 0 }
    if text == nil then text = saved[book.bucket] end
    local is_damaged = text and not steps.read(state, text, limit, now_us)
    if is_damaged or not text then steps.clear(state, limit, 0) end
    for i = 1, #due, 2 do
      local hold, ended_us = read_hold(due[i]), min(now_us, max(tonumber(due[i + 1]), state.at_us))
      steps.advance(state, limit, ended_us)
      give_back_held(book, state, limit, hold, hold.cost, ended_us)
      book.ended, book.dropped = book.ended + 1, book.dropped + 1
      release(book, hold.cost)
    end
    -- A damaged text is left to the group, which counts it.
    if is_damaged then return end
    steps.advance(state, limit, now_us)
    local _, reset_us = steps.report(state, limit, now_us)
    texts[book.bucket], lifetimes[book.bucket], book.have_ended = steps.write(state), reset_us, true
  end

  -- Whether the group that opened the book has ended holds: its bucket is written, though the group may change nothing.
  local function have_ended(key)
    local book = books[key]
    local have_ended = book and book.have_ended
    if have_ended then book.have_ended = false end
    return have_ended
  end

  -- Mode and cost of a take.
  local function question_of(take)
    return unpack_numbers('<dd', groups, take + 32)
  end

  -- Opens the books of a group, before it is judged. False if one of them has no room for a hold that the group may
  -- open.
  local function begin(size, first)
    local PER_BUCKET_MAX = 10000
    for take = first, first + (size - 1) * TAKE_BYTES, TAKE_BYTES do
      local key, limit = unpack_numbers('<dd', groups, take)
      local book = books[key]
      if book and not book.is_open then open(book, limits[limit]) end
    end
    for take = first, first + (size - 1) * TAKE_BYTES, TAKE_BYTES do
      local hold, mode = of_take[take], question_of(take)
      local may_open = hold and mode == MODE_PAY and (hold.own > 0 or hold.is_concurrent)
      if may_open and live_count(hold.book) >= PER_BUCKET_MAX then return false end
    end
    return true
  end

  -- The content of a hold's own key, as the call has left it so far.
  local function read_own(own)
    local text = saved[own]
    if text and not named[own] then
      named[own] = read_hold(text)
      if not named[own].cost then named[own].settled_until_us = tonumber(string.match(text, '^settled (%d+)$')) end
    end
    return named[own] or {}
  end

  -- table.concat and not string.format, which cuts an id at its first zero byte.
  local function member_of(cost, paid_at_us, payment, id)
    return table.concat({ format(THREE, cost, paid_at_us, payment), id }, ' ')
  end

  -- The live hold of that id, and its member; nil if there isn't one.
  local function live_hold(hold)
    if hold.own == 0 then return nil end
    local found = read_own(hold.own)
    if not found.ends_at_us or found.ends_at_us <= now_us then return nil end
    local book, member = hold.book, member_of(found.cost, found.paid_at_us, found.payment, hold.id)
    if book.added[member] then return found, member end
    if book.removed[member] or (book.only and book.only ~= member) then return nil end
    if book.only or call('ZSCORE', book.key, member) then return found, member end
  end

  local function is_settled(hold)
    return hold.own > 0 and (read_own(hold.own).settled_until_us or 0) > now_us
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

  -- Opens a hold for what was paid; true if it did. A payment whose id is already known opens none and is final, except
  -- on a `concurrent` limit, where the hold is opened without an id.
  local function add(hold, cost, paid_at_us)
    local book, payment = hold.book, 0
    local is_nameless = hold.own == 0 or live_hold(hold) or is_settled(hold)
    if is_nameless and not hold.is_concurrent then return false end
    book.lifetime_us = max(book.lifetime_us, hold.us)
    local lows = book.lows
    if lows then
      payment = lows.last
      lows.is_changed, lows.last_held, lows.held = true, payment, lows.held + cost * TICKS
    end
    local added = {
      cost = cost, paid_at_us = paid_at_us, payment = payment, ends_at_us = now_us + hold.us, lasts_us = hold.us, is_nameless = is_nameless,
    }
    local id = hold.id
    if is_nameless then
      id, book.nameless_count = rep('+', book.nameless_count), book.nameless_count + 1
    else
      named[hold.own] = added
    end
    book.added[member_of(cost, paid_at_us, payment, id)], book.added_count = added, book.added_count + 1
    return true
  end

  -- Opens holds for the group's payments, and tells peeks how many there are.
  local function conclude(size, first, answers)
    local PAID_AT = 4 -- where the time of payment is in an answer
    for i = 0, size - 1 do
      local hold, answer, mode, cost = of_take[first + i * TAKE_BYTES], answers + i * TAKE_NUMBERS, question_of(first + i * TAKE_BYTES)
      if hold and mode == MODE_PAY and reply[answer + PAID_AT] > 0 and add(hold, cost, reply[answer + PAID_AT]) then
        reply[answer] = reply[answer] + STATUS_OPENED
      end
    end
    for i = 0, size - 1 do
      local hold, mode = of_take[first + i * TAKE_BYTES], question_of(first + i * TAKE_BYTES)
      if hold and mode == MODE_PEEK then reply[answers + i * TAKE_NUMBERS + PAID_AT] = live_count(hold.book) end
    end
  end

  -- Settles the hold at what was used. Returns what was held (or FOUND_NONE, FOUND_SETTLED) and the hits that could not
  -- be recorded.
  local function settle(hold, bucket, used)
    local FOUND_NONE, FOUND_SETTLED = -1, -2
    local found, beyond, limit = FOUND_NONE, used, bucket.limit
    local live, member = live_hold(hold)
    if live then
      if hold.is_concurrent then used = 0 end
      found, beyond = live.cost, used - live.cost
      if beyond < 0 then give_back_held(hold.book, bucket, limit, live, -beyond, now_us) end
      remove(hold.book, member, live.cost)
    elseif is_settled(hold) then
      return FOUND_SETTLED, 0
    end
    if hold.own > 0 then named[hold.own] = { settled_until_us = now_us + hold.us, lasts_us = hold.us } end
    if hold.is_concurrent or (live and beyond <= 0) then return found, 0 end
    note_payment(hold, bucket)
    return found, limit.steps.post_pay(bucket, limit, beyond, now_us)
  end

  -- Gives back a payment and ends its hold. If the hold has ended or was settled before, nothing is left to give back.
  local function close(hold, bucket, cost, paid_at_us)
    local book, limit = hold.book, bucket.limit
    local live, member = live_hold(hold)
    if live and live.paid_at_us == paid_at_us then
      give_back_held(book, bucket, limit, live, cost, now_us)
      remove(book, member, live.cost)
      named[hold.own] = { is_gone = true }
      return
    end
    -- Holds without an id that were paid at the same time are told apart by plus signs; some may have ended, and an
    -- edit of the rule has others end at another time. One call can open 64 of them.
    local is_found = false
    member = member_of(cost, paid_at_us, 0, '')
    for _ = 1, hold.is_concurrent and 64 or 0 do
      is_found = tonumber(call('ZSCORE', book.key, member) or 0) == paid_at_us + hold.us and not book.removed[member]
      if is_found then break end
      member = table.concat({ member, '+' })
    end
    if is_found then remove(book, member, cost) end
    -- The payment opened no hold if it had no id, or if another payment's hold has its id before its own could have
    -- ended.
    local is_of_another = live and now_us < paid_at_us + hold.us
    if is_found or is_of_another or (hold.own == 0 and not hold.is_concurrent) then limit.steps.give_back(bucket, limit, cost, paid_at_us, now_us) end
  end

  -- The wait of a take that is not paid, of which `wait_us` is known without holds (tellWait in
  -- src/engine/algorithms/holds.ts).
  local function tell_wait(hold, bucket, outcome, wait_us, cost)
    local WAIT_US_MIN = 1000000
    local LOOKS_MAX = 4 -- holds that the wait of a refusal considers
    local book, limit, used, lows = hold.book, bucket.limit, bucket.used, hold.book.lows
    local count = live_count(book)
    if count == 0 or (outcome == OUTCOME_NEVER and not hold.is_concurrent) then return wait_us end
    -- At least the first live holds, those that end soonest first.
    local last = book.ended + book.removed_count + (hold.is_concurrent and 0 or LOOKS_MAX)
    local stored, first = call('ZRANGE', book.key, format(ONE, book.ended), format(ONE, last), 'WITHSCORES'), {}
    for i = 1, #stored, 2 do
      if not book.removed[stored[i]] then
        local live = read_hold(stored[i])
        live.ends_at_us, first[#first + 1] = tonumber(stored[i + 1]), live
      end
    end
    for _, added in pairs(book.added) do first[#first + 1] = added end
    if book.added_count > 0 then table.sort(first, function(one, other) return one.ends_at_us < other.ends_at_us end) end

    if hold.is_concurrent then
      local age_us = max(0, now_us - first[1].paid_at_us)
      return min(max(1, first[1].ends_at_us - now_us), max(WAIT_US_MIN, floor(age_us / count)))
    end
    for looks, live in ipairs(first) do
      local ends_in_us = max(1, live.ends_at_us - now_us)
      if looks > LOOKS_MAX then wait_us = min(wait_us, ends_in_us) end
      if wait_us <= ends_in_us then break end
      if lows then
        bucket.used = bucket.used - min(live.cost * TICKS, lows_steps.since(lows, live.payment) or EXACT_MAX)
      elseif live.paid_at_us >= bucket.at_us then -- what was paid in an earlier window is not given back
        bucket.used = bucket.used - live.cost
      end
      local _, later_us = limit.steps.judge(bucket, limit, cost, now_us)
      wait_us = max(ends_in_us, later_us)
    end
    bucket.used = used
    return wait_us
  end

  local function needed_ms(lifetime_us)
    return max(1, ceil(min(WAIT_US_MAX, lifetime_us) / 1000)) + lifetime_extra_ms
  end

  -- Extends the lifetime of the set to at least that long, to within a millisecond of rounding; returns its lifetime in
  -- milliseconds.
  local function keep_set(book, lifetime_us)
    local ms = needed_ms(lifetime_us)
    local left_ms = book.stored > 0 and call('PTTL', book.key) or -1
    if left_ms + 1 >= ms then return left_ms end
    call('PEXPIRE', book.key, format(ONE, ms))
    return ms
  end

  local function write_book(book)
    local lows, had_lows = book.lows, book.lows and book.lows.was_there
    if book.added_count == 0 and book.stored == book.dropped + book.removed_count then
      -- Its last member goes, and so does the set.
      if book.stored > 0 and had_lows then call('DEL', book.key, book.lows_key)
      elseif book.stored > 0 then call('DEL', book.key)
      elseif had_lows then call('DEL', book.lows_key) end
      return
    end
    if book.dropped > 0 then call('ZREMRANGEBYRANK', book.key, '0', format(ONE, book.dropped - 1)) end
    for member in pairs(book.removed) do call('ZREM', book.key, member) end
    for member, added in pairs(book.added) do
      while call('ZADD', book.key, 'NX', format(ONE, added.ends_at_us), member) == 0 and added.is_nameless do
        member = table.concat({ member, '+' })
      end
    end
    if live_count(book) <= 0 then
      if had_lows then call('DEL', book.lows_key) end
      return
    end
    local lifetime_us = max(book.lifetime_us, lifetimes[book.bucket] or 0)
    if lifetime_us == 0 and not lows then return end
    local left_ms = keep_set(book, lifetime_us)
    -- Lows of payments that were undone must not be written.
    if lows and (lows.is_changed or texts[book.bucket] ~= nil) then
      call('SET', book.lows_key, lows_steps.write(lows), 'PX', format(ONE, left_ms))
    end
  end

  -- Adds to the reply, per bucket whose holds have ended, the index of its key and their number; returns the length of
  -- the reply.
  local function report(length)
    for key, book in pairs(books) do
      if book.dropped > 0 then reply[length + 1], reply[length + 2], length = key, book.dropped, length + 2 end
      -- The bucket of a `concurrent` limit is kept nowhere.
      if book.is_count then lifetimes[key] = nil end
    end
    return length
  end

  -- Writes everything that the call has changed.
  local function write_all()
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

  return {
    of_take = of_take, begin = begin, have_ended = have_ended, wait_us = tell_wait, note_payment = note_payment, close = close,
    settle = settle, conclude = conclude, report = report, write_all = write_all,
  }
end
