-- Entry script: settles a list of groups in one call, each as a whole, one after another.
-- KEYS     the keys of all buckets and of their holds, each once
-- ARGV     each a string of doubles
--          1  time in microseconds, or 0 for the server's clock
--          2  limits, as `read_limits` in call.lua says
--          3  receipts to give back before anything is taken, per receipt: key, limit, cost, time of payment
--          4  groups, per group: number of takes, latest time at which it may pay (0: any),
--             flags: 1 if a quota descriptor without a take passes, plus 2 if there are counters, plus 4 if only counters that are over
--             are charged once one is over; and per take: key, limit, descriptor, kind, mode, cost
--             Keys and limits are given by their index, from 1.
--          5  holds of takes and receipts, as `holds.read` says; absent if there are none
-- reply    string of doubles: time, number of damaged buckets, then per group its verdict. Unless that is VERDICT_TOO_LATE or
--          VERDICT_HOLDS_FULL (nothing was paid) or VERDICT_NO_COUNT (a counter's key holds no count), six numbers per take follow:
--          outcome (plus 4 if paid, plus 8 if a hold was opened), remaining, wait and reset in microseconds, time of payment (for
--          a counter: the count; for a settlement: what was held; for a peek at holds: their number), capped hits. At the end, per
--          bucket whose holds have ended: index of its key, number of these holds
-- state    as each algorithm's file says; damaged state (a wrong type or wrong text) is deleted and counts as none
-- lifetime set with every write, by the algorithm's reset time; a minute more if the time is given (`read_clock`)
-- Except for counters, all reads come before the first write, so that an error at one key leaves no other half written. A refusal writes
-- nothing, but extends the lifetime of a token bucket whose rate was lowered since it was written.

local receipts, groups = unpack_all(ARGV[3]), unpack_all(ARGV[4])
local now_us, lifetime_extra_ms = read_clock(struct.unpack('<d', ARGV[1]))
local limits = read_limits(ARGV[2])

local KEYS_PER_READ = 1000

local has_states = false -- whether any limit is not a counter
for i = 1, #limits do has_states = has_states or not limits[i].is_counter end

-- A key of another type reads as nothing here; `write_string` detects it.
local saved = {}
for from = 1, has_states and #KEYS or 0, KEYS_PER_READ do
  local texts = redis.call('MGET', unpack(KEYS, from, min(#KEYS, from + KEYS_PER_READ - 1)))
  for i = 1, #texts do saved[from + i - 1] = texts[i] end
end

local holds = ARGV[5] and use('holds')
if holds then holds.read(unpack_all(ARGV[5]), saved) end

local states = {}
local damaged = 0

local group_at = 0 -- index of the group that is being settled; below 0 while receipts are given back

local function keep_state(key_index, state)
  state.group_at = group_at
  states[key_index] = state
  return state
end

-- A new bucket, which replaces the saved one.
local function new_state(key_index, limit)
  local state = limit.algorithm.open(false, limit, now_us)
  state.is_void = true
  return keep_state(key_index, state)
end

local function open_state(key_index, limit)
  local book = holds and holds.of_bucket(key_index)
  local state
  if book and book.is_count then
    state = holds.open_count(book, limit, now_us)
  elseif book then
    state = holds.open(book, saved[key_index], limit, now_us)
  else
    state = limit.algorithm.open(saved[key_index], limit, now_us)
  end
  if state then return keep_state(key_index, state) end
  damaged = damaged + 1
  return new_state(key_index, limit)
end

-- The state of a key, opened once and shared by all groups of the call, as if each had read what the one before wrote. Takes may reach it
-- under different limits: an edited rule, an override.
local function state_of(key_index, limit)
  local state = states[key_index]
  if not state then return open_state(key_index, limit) end
  local from = state.limit
  state.limit = limit
  if state.group_at == group_at then
    if from ~= limit and limit.algorithm.hand_over then limit.algorithm.hand_over(state, from, now_us) end
    return state
  end
  if state.is_changed and limit.algorithm.is_as_new(state) then return new_state(key_index, limit) end
  if limit.algorithm.reopen then limit.algorithm.reopen(state, from, now_us) end
  state.group_at = group_at
  return state
end

local out = {}
local size_of_out = 2
-- The results of the current group, by take, from 1.
local taken, outcome, wait, paid_at, capped, held, opened = {}, {}, {}, {}, {}, {}, {}
local counted = { outcome = outcome, count = {}, is_charged = {} }
-- Takes of the group that are paid tentatively, and undone if their descriptor is over or the group is refused.
local tentative = {}
local tentative_count = 0

-- Undoes tentative payments until `count` are left. `first` is the index of the group's first take in `groups`.
local function undo_down_to(count, first)
  for i = tentative_count, count + 1, -1 do
    local take = tentative[i]
    local state = taken[take]
    state.limit.algorithm.undo(state, groups[first + take * 6 - 1])
    paid_at[take] = 0
  end
  tentative_count = count
end

-- Judges one take and pays it tentatively; true if it is over. Its numbers begin at `groups[at]`.
local function try_take(take, at)
  local limit, mode, cost = limits[groups[at + 1]], groups[at + 4], groups[at + 5]
  local algorithm = limit.algorithm
  if limit.is_counter then
    if mode == MODE_REFUND then outcome[take] = OUTCOME_ROOM end
    return outcome[take] == OUTCOME_OVER
  end
  local state = state_of(groups[at], limit)
  taken[take], outcome[take], wait[take], paid_at[take], capped[take] = state, OUTCOME_ROOM, 0, 0, 0
  if mode == MODE_REFUND or mode == MODE_SETTLE then return false end
  if mode == MODE_POST_PAID then
    paid_at[take] = algorithm.paid_at_us(state, now_us)
    if holds and holds.at(at) then holds.note_payment(holds.at(at), state, limit, now_us) end
    capped[take] = algorithm.post_pay(state, limit, cost, now_us)
    return false
  end
  outcome[take], wait[take] = algorithm.judge(state, limit, cost, now_us)
  if outcome[take] ~= OUTCOME_ROOM then
    local ref = holds and holds.at(at)
    if ref and ref.is_concurrent then wait[take] = holds.wait_us(ref, now_us) or wait[take] end
    return true
  end
  if mode == MODE_PAY then
    paid_at[take] = algorithm.paid_at_us(state, now_us)
    if holds and holds.at(at) then holds.note_payment(holds.at(at), state, limit, now_us) end
    algorithm.pay(state, cost)
    tentative_count = tentative_count + 1
    tentative[tentative_count] = take
  end
  return false
end

-- Tries all `size` takes of a group by descriptor; true if the group is refused.
local function try_all(first, size, has_spare_quota)
  local is_refused, has_quota, has_quota_room = false, false, has_spare_quota
  local take, at = 1, first
  while take <= size do
    local descriptor, kind, base, is_over = groups[at + 2], groups[at + 3], tentative_count, false
    while take <= size and groups[at + 2] == descriptor do
      if try_take(take, at) then is_over = true end
      take, at = take + 1, at + 6
    end
    if is_over then undo_down_to(base, first) end
    if kind == KIND_QUOTA then
      has_quota = true
      has_quota_room = has_quota_room or not is_over
    elseif kind == KIND_ORDINARY and is_over then
      is_refused = true
    end
  end
  return is_refused or (has_quota and not has_quota_room)
end

-- Applies refunds and settlements. They come last, so that no take of the same call passes because of them.
local function refund_all(first, size)
  local left -- counts of refunded counters by key, after all refunds of the group
  for take = 1, size do
    local at = first + take * 6 - 6
    if groups[at + 4] == MODE_REFUND then
      local cost, state = groups[at + 5], taken[take]
      if limits[groups[at + 1]].is_counter then
        left = left or {}
        left[groups[at]], counted.is_charged[take] = use('counter').refund(KEYS[groups[at]], cost), true
      else
        paid_at[take] = state.limit.algorithm.paid_at_us(state, now_us)
        state.limit.algorithm.refund(state, limits[groups[at + 1]], cost, now_us)
      end
    elseif groups[at + 4] == MODE_SETTLE then
      held[take], capped[take] = holds.settle(holds.at(at), taken[take], limits[groups[at + 1]], groups[at + 5], now_us)
    end
  end
  if not left then return end
  for take = 1, size do
    local at = first + take * 6 - 6
    if groups[at + 4] == MODE_REFUND and left[groups[at]] then counted.count[take] = left[groups[at]] end
  end
end

-- Opens holds for the group's payments.
local function open_holds(first, size)
  for take = 1, size do
    local at = first + take * 6 - 6
    local ref = groups[at + 4] == MODE_PAY and paid_at[take] > 0 and holds.at(at)
    if ref then
      local added = #ref.book.added
      holds.add(ref, groups[at + 5], paid_at[take], now_us)
      opened[take] = #ref.book.added > added
    end
  end
end

-- Notes the changes of a group or receipt; returns the microseconds until the state is as new. The key lives at least as long: limits that
-- share a bucket may differ in amount, and the longest lifetime counts.
local function conclude(state, limit)
  limit.algorithm.note(state)
  local reset_us = limit.algorithm.reset_us(state, limit, now_us)
  state.lifetime_us = max(state.lifetime_us, reset_us)
  return reset_us
end

-- True if there is room for the holds of the group's payments. If not, the buckets are noted all the same, because holds may have ended in them.
local function has_room_for_holds(first, size)
  local opened_states, has_room = {}, true
  for take = 1, size do
    local at = first + take * 6 - 6
    local ref = has_room and groups[at + 4] == MODE_PAY and holds.at(at)
    if ref and holds.opens(ref) then
      opened_states[take] = state_of(groups[at], limits[groups[at + 1]])
      has_room = holds.has_room(ref)
    end
  end
  if has_room then return true end
  for take, state in pairs(opened_states) do conclude(state, limits[groups[first + take * 6 - 5]]) end
  return false
end

local function answer_counter(take, limit, at)
  local count = counted.count[take]
  out[at + 1] = outcome[take] + (counted.is_charged[take] and 4 or 0)
  out[at + 2] = max(0, limit.amount - count)
  out[at + 3], out[at + 4] = 0, 0
  out[at + 5] = min(count, EXACT_MAX)
  out[at + 6] = 0
end

local function answer_take(take, limit, at)
  local state = taken[take]
  local is_settled = held[take] ~= nil
  out[at + 1] = outcome[take] + ((paid_at[take] > 0 or is_settled) and 4 or 0) + (opened[take] and 8 or 0)
  out[at + 2] = limit.algorithm.remaining(state, limit, now_us)
  out[at + 3] = wait[take]
  out[at + 4] = conclude(state, limit)
  out[at + 5] = is_settled and held[take] or paid_at[take]
  out[at + 6] = capped[take]
  held[take], opened[take] = nil, nil
end

local function answer_verdict(verdict)
  size_of_out = size_of_out + 1
  out[size_of_out] = verdict
end

local function answer(verdict, first, size)
  answer_verdict(verdict)
  for take = 1, size do
    local limit = limits[groups[first + take * 6 - 5]]
    if limit.is_counter then
      answer_counter(take, limit, size_of_out)
    else
      answer_take(take, limit, size_of_out)
      local first_of_take = first + take * 6 - 6
      local ref = holds and groups[first_of_take + 4] == MODE_PEEK and holds.at(first_of_take)
      if ref then out[size_of_out + 5] = holds.live_count(ref.book) end
    end
    size_of_out = size_of_out + 6
  end
end

-- Settles the group whose numbers begin at `groups[at]`; returns the index of the next one.
local function settle(at)
  local size, latest_us, flags, first = groups[at], groups[at + 1], groups[at + 2], at + 3
  if latest_us > 0 and now_us > latest_us then
    answer_verdict(VERDICT_TOO_LATE)
    return first + size * 6
  end
  group_at, tentative_count = at, 0
  if flags >= 2 and not use('counter').charge_all(groups, limits, first, size, flags >= 4, counted) then
    answer_verdict(VERDICT_NO_COUNT)
    return first + size * 6
  end
  if holds and not has_room_for_holds(first, size) then
    answer_verdict(VERDICT_HOLDS_FULL)
    return first + size * 6
  end
  local is_refused = try_all(first, size, flags % 2 == 1)
  if is_refused then undo_down_to(0, first) end
  refund_all(first, size)
  if holds then open_holds(first, size) end
  answer(is_refused and VERDICT_REFUSED or VERDICT_ALLOWED, first, size)
  return first + size * 6
end

-- False if the key holds a wrong type, which is replaced or deleted.
local function write_state(state, key, was_there)
  local algorithm = state.limit.algorithm
  local is_as_new = algorithm.is_as_new(state)
  if was_there and not (state.is_changed or (is_as_new and state.is_void)) then
    if algorithm.lasts_by_rate and not is_as_new then keep_longer(key, state.lifetime_us, lifetime_extra_ms) end
    return true
  end
  return write_string(key, was_there, not is_as_new and algorithm.text(state), state.lifetime_us, lifetime_extra_ms)
end

for receipt = 1, #receipts, 4 do
  group_at = -receipt -- each receipt counts as a group of its own
  local limit = limits[receipts[receipt + 1]]
  local state = state_of(receipts[receipt], limit)
  local cost, paid_at_us, ref = receipts[receipt + 2], receipts[receipt + 3], holds and holds.at(-receipt)
  if ref then
    holds.close(ref, state, limit, cost, paid_at_us, now_us)
  else
    limit.algorithm.give_back(state, limit, cost, paid_at_us, now_us)
  end
  conclude(state, limit)
end

local at = 1
while at <= #groups do at = settle(at) end

for key_index = 1, #KEYS do
  local state, book = states[key_index], holds and holds.of_bucket(key_index)
  if book and book.dropped > 0 then
    out[size_of_out + 1], out[size_of_out + 2] = key_index, book.dropped
    size_of_out = size_of_out + 2
  end
  if state and not (book and book.is_count) then
    local is_sound = write_state(state, KEYS[key_index], saved[key_index])
    damaged = damaged + (is_sound and 0 or 1)
  end
end

if holds then
  holds.write_all(states, lifetime_extra_ms)
end

out[1], out[2] = now_us, damaged
return pack_all(out)
