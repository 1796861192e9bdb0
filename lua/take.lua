-- Entry script: decides a list of groups (the takes of one call each) one after another, each as a whole. For each
-- group: reads its buckets from their texts, judges, pays what passes, keeps what has changed as text. At the end
-- writes the texts. Later groups read what earlier ones have left, as if each were a call of its own.
-- KEYS     the keys of all buckets, each once; with holds also theirs
-- ARGV     each a string of doubles
--          1  time in microseconds, or 0 for the server's clock
--          2  limits, five numbers each: algorithm, amount, burst, window in seconds, largest debt. For a calendar
--             window the last three are start and end of the caller's window and the end of the next one, in
--             microseconds
--          3  groups, per group: number of takes, latest time at which it may pay (0: any), 1 if a quota descriptor
--             without a take passes, else 0; and per take: key, limit, descriptor, kind, mode, cost. Keys and limits
--             are given by their index, from 1. A payment to give back is a group of one take with MODE_GIVE_BACK, the
--             time of payment in place of the descriptor, and the limit by which it returns in place of the kind. A
--             guarantee (MODE_GUARANTEE) comes before the take that it may cover, and has the whole limit of that in
--             place of the kind.
--          4  holds of takes, as holds.lua says; only for the script that includes it
-- reply    string of doubles: time, number of damaged buckets, then per group its verdict. Unless that is
--          VERDICT_TOO_LATE or VERDICT_HOLDS_FULL (nothing was paid), six numbers per take follow: outcome (plus 4 if
--          paid, plus 8 if a hold was opened), remaining, wait and reset in microseconds, time of payment (for a
--          settlement: what was held; for a peek at holds: their number), capped hits. At the end, per bucket whose
--          holds have ended: index of its key, number of these holds
-- state    as each algorithm's file says; damaged state (wrong type or text) is deleted, and the bucket is full
-- lifetime set with every write, by the algorithm's reset time; a minute more if the time is given, because that clock
--          may run slower than the one by which keys expire
-- All reads come before the first write, so that an error at one key leaves no other half written. A refusal writes
-- nothing, but extends the lifetime of a token bucket whose rate was lowered since it was written.
--
-- Simple groups are decided here: payments and peeks of ordinary descriptors on different buckets, with the guarantees
-- of their callers, or a single one of any kind. Apart from guarantees, their takes don't depend on each other, so all
-- are judged before any is paid. settlement.lua decides the others. It could decide all, but a lone call of two takes
-- would take a sixth longer, most of it for making functions (bench/store/script-cost.mjs).
--
-- Steps of algorithms are those of Step in src/engine/algorithms/working-bucket.ts, under the same names. They change
-- the table that they get as `state`. In addition `read` fills it from its text and returns whether that is sound, and
-- `write` returns the text, or false for a bucket that is full, which stands for `isAsNew`. `pay` with a negative cost
-- stands for `undo`, and the later one of at_us and now_us for `paidAtUs`.

local now_us, lifetime_extra_ms = unpack_numbers('<d', ARGV[1]), 60000
if now_us == 0 then
  local time = call('TIME')
  now_us, lifetime_extra_ms = time[1] * 1000000 + time[2], 0
end

-- Limits by their indexes, and the steps of their algorithms, which are made once in a call. Tables begin with room for
-- what a lone take needs.
local limits, steps_of = { nil }, { [TOKEN_BUCKET] = false }
for at = 1, #ARGV[2], LIMIT_BYTES do
  local algorithm, amount, burst, window_seconds, debt_max = unpack_numbers('<ddddd', ARGV[2], at)
  local make = algorithm == TOKEN_BUCKET and token_bucket or algorithm == SLIDING_WINDOW and sliding_window
    or algorithm == FIXED_WINDOW and fixed_window or algorithm == CALENDAR_WINDOW and calendar_window or sliding_log
  local steps = steps_of[algorithm] or make()
  steps_of[algorithm] = steps
  limits[#limits + 1] = {
    algorithm = algorithm, steps = steps, amount = amount, burst = burst, window_seconds = window_seconds, debt_max = debt_max,
  }
end

-- By key, its text in Redis, or false. A key of another type reads as false here; SET with NX, or EXISTS, finds it in
-- the end. Lua's stack bounds keys, and numbers of the reply, to some 8,000; the largest call has a quarter.
local saved = call('MGET', unpack(KEYS))
-- By key: what the call has changed, as the new text, or false for a bucket that is full; and how long a bucket must
-- last that was changed or may have to last longer, in microseconds.
local texts, lifetimes = { nil, nil }, { nil, nil }
local damaged, damaged_in_groups = 0, 0 -- buckets whose keys held something else

local REMAINING, WAIT, RESET, PAID_AT, CAPPED = 1, 2, 3, 4, 5 -- where an answer has these numbers, after its outcome
-- The buckets of a simple group; their tables are used again for the next one.
local buckets = { nil, nil }
-- By key, where the last group begins that names it, to find keys that a group names twice; only for groups of several
-- takes.
local group_of
-- What holds.lua and settlement.lua return, made for the first group that needs them.
local holds, settle
local reply, length, groups, at = { now_us, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 2, ARGV[3], 1
while at <= #groups do
  -- The head of a group, and its first take.
  local size, latest_us, spare_quota, key, limit, descriptor, kind, mode, cost = unpack_numbers('<ddddddddd', groups, at)
  local first, answers, verdict = at + HEAD_BYTES, length + 2, VERDICT_ALLOWED
  local is_simple = (mode <= MODE_PEEK or mode == MODE_GUARANTEE) and not ARGV[4]
  if size > 1 then
    group_of = group_of or { nil, nil }
    for take = first, first + (size - 1) * TAKE_BYTES, TAKE_BYTES do
      local key, _, _, kind, mode = unpack_numbers('<ddddd', groups, take)
      local fits = mode <= MODE_PEEK and kind == KIND_ORDINARY or mode == MODE_GUARANTEE
      is_simple = is_simple and fits and group_of[key] ~= at
      group_of[key] = at
    end
  end

  if latest_us > 0 and now_us > latest_us then
    verdict = VERDICT_TOO_LATE
  elseif is_simple then
    -- Read and judge. `own` is the bucket of a guarantee, which pays if it may cover the next take; that is then judged
    -- by `whole`.
    local answer, own, whole = answers
    for i = 1, size do
      if i > 1 then key, limit, descriptor, kind, mode, cost = unpack_numbers('<dddddd', groups, first + (i - 1) * TAKE_BYTES) end
      limit = limits[limit]
      local bucket, steps, text, is_changed = buckets[i], limit.steps, texts[key], false
      if not bucket then
        bucket = { used = 0, at_us = 0, previous = 0, refill = 0, key = key, limit = limit, due = false, is_changed = false }
        buckets[i] = bucket
      end
      if text == nil then text = saved[key] end
      if text and steps.read(bucket, text, limit, now_us) then
        is_changed = steps.advance(bucket, limit, now_us)
      else
        steps.clear(bucket, limit, now_us)
        if text then is_changed, damaged = true, damaged + 1 end
      end
      local outcome, wait_us = steps.judge(bucket, own and whole or limit, cost, now_us)
      if own then
        if own.due then
          -- The guarantee has room, so `whole` judges this take. If that has room too, both pay.
          limit, own.due = whole, outcome == OUTCOME_ROOM and mode == MODE_PAY and cost
        else
          -- The take borrows, so its own limit judges it. The guarantee covers it once both have room.
          local own_wait = answer - TAKE_NUMBERS + WAIT
          reply[own_wait] = outcome == OUTCOME_NEVER and WAIT_US_MAX or max(reply[own_wait], wait_us)
          outcome, wait_us = steps.judge(bucket, limit, cost, now_us)
        end
        own = nil
      end
      -- The cost that it pays unless another take refuses the group; false if it pays nothing in any case.
      local due = outcome == OUTCOME_ROOM and mode == MODE_PAY and cost
      if mode == MODE_GUARANTEE then
        own, whole, due = bucket, limits[kind], outcome == OUTCOME_ROOM and cost
        outcome, wait_us = OUTCOME_ROOM, outcome == OUTCOME_NEVER and WAIT_US_MAX or wait_us
      elseif outcome ~= OUTCOME_ROOM and (kind == KIND_ORDINARY or (kind == KIND_QUOTA and spare_quota == 0)) then
        verdict = VERDICT_REFUSED
      end
      bucket.key, bucket.limit, bucket.due, bucket.is_changed = key, limit, due, is_changed
      reply[answer], reply[answer + REMAINING], reply[answer + WAIT] = outcome, 0, wait_us
      answer = answer + TAKE_NUMBERS
    end

    -- Pay, report and write.
    answer = answers
    for i = 1, size do
      local bucket = buckets[i]
      local key, limit, due, is_changed = bucket.key, bucket.limit, bucket.due, bucket.is_changed
      local steps, paid_at_us = limit.steps, 0
      if due and verdict == VERDICT_ALLOWED then
        steps.pay(bucket, due)
        paid_at_us, is_changed = bucket.at_us > now_us and bucket.at_us or now_us, is_changed or due > 0
        reply[answer] = OUTCOME_ROOM + STATUS_PAID
      end
      local remaining, reset_us = steps.report(bucket, limit, now_us)
      reply[answer + REMAINING], reply[answer + RESET] = remaining, reset_us
      reply[answer + PAID_AT], reply[answer + CAPPED] = paid_at_us, 0
      answer = answer + TAKE_NUMBERS
      if is_changed then texts[key] = steps.write(bucket) end
      -- The longest lifetime counts, because limits that share a bucket may differ in amount. Only of a token bucket
      -- may it be longer without a change. A key that reads as empty is looked at in the end: it may hold another type.
      if is_changed or limit.algorithm == TOKEN_BUCKET or not saved[key] then
        local lasts_us = lifetimes[key]
        if not lasts_us or lasts_us < reset_us then lifetimes[key] = reset_us end
      end
    end
  else
    if not settle then
      -- Only the script for calls with holds includes holds.lua, and gets ARGV[4].
      holds = ARGV[4] and open_holds(ARGV[4], KEYS, now_us, lifetime_extra_ms, limits, groups, saved, texts, lifetimes, reply)
      settle = settlement(now_us, limits, groups, saved, texts, lifetimes, reply, holds)
    end
    verdict, damaged_in_groups = settle(size, first, answers, spare_quota == 1)
  end
  reply[length + 1], at = verdict, first + size * TAKE_BYTES
  length = length + (verdict <= VERDICT_REFUSED and 1 + size * TAKE_NUMBERS or 1)
end
if holds then length = holds.report(length) end

-- Writes the buckets that the call has changed, and has others last longer.
for key = 1, #KEYS do
  local lifetime_us = lifetimes[key]
  if lifetime_us then
    local name, text, was_there, ms = KEYS[key], texts[key], saved[key], ceil(min(WAIT_US_MAX, lifetime_us) / 1000)
    local ms_text = format(ONE, ms + lifetime_extra_ms)
    if text and was_there then
      call('SET', name, text, 'PX', ms_text)
    elseif text then
      if not call('SET', name, text, 'PX', ms_text, 'NX') then
        damaged = damaged + 1
        call('SET', name, text, 'PX', ms_text)
      end
    elseif was_there and text == nil then
      -- An unchanged bucket. Its lifetime was set by the rate of the last write, and a lower rate needs a longer one.
      -- Both are rounded, so a difference of a millisecond does not count.
      if call('PTTL', name) + 1 < ms then call('PEXPIRE', name, ms_text) end
    elseif was_there or call('EXISTS', name) == 1 then
      if not was_there then damaged = damaged + 1 end
      call('DEL', name)
    end
  end
end
if holds then holds.write_all() end

reply[2] = damaged + damaged_in_groups
return pack_numbers('<' .. rep('d', length), unpack(reply, 1, length))
