-- Entry script: settles a list of groups in one call, each as a whole, one after another. Between groups a bucket is the text that Redis
-- keeps of it, as if each group were a call of its own; within a group it is three numbers.
-- KEYS     the keys of all buckets and of their holds, each once
-- ARGV     each a string of doubles
--          1  time in microseconds, or 0 for the server's clock
--          2  limits, five numbers each: algorithm, amount, burst, window in seconds, largest debt. For a calendar window the last
--             three are start and end of the caller's window and the end of the next one, in microseconds
--          3  groups, per group: number of takes, latest time at which it may pay (0: any),
--             1 if a quota descriptor without a take passes, else 0; and per take: key, limit, descriptor, kind, mode, cost
--             Keys and limits are given by their index, from 1. A payment to give back is a group of one take with MODE_GIVE_BACK, and
--             the time of payment in place of the descriptor.
--          4  holds of takes, as holds.lua says; absent if there are none
-- reply    string of doubles: time, number of damaged buckets, then per group its verdict. Unless that is VERDICT_TOO_LATE or
--          VERDICT_HOLDS_FULL (nothing was paid), six numbers per take follow: outcome (plus 4 if paid, plus 8 if a hold was opened),
--          remaining, wait and reset in microseconds, time of payment (for a settlement: what was held; for a peek at holds: their
--          number), capped hits. At the end, per bucket whose holds have ended: index of its key, number of these holds
-- state    as each algorithm's file says; damaged state (a wrong type or wrong text) is deleted and counts as none
-- lifetime set with every write, by the algorithm's reset time; a minute more if the time is given, because that clock may run slower
--          than the one by which keys expire
-- All reads come before the first write, so that an error at one key leaves no other half written. A refusal writes nothing, but extends
-- the lifetime of a token bucket whose rate was lowered since it was written.
--
-- An algorithm's file has pieces of code, which scripts.ts inserts where a comment says so: the pieces of all algorithms, each in a
-- branch (EACH), a piece of the same file (INSERT), or a whole file (FILE). They work on the variables now_us; amount, burst, seconds and
-- debt_max of the limit; cost; used, at_us and rest of the bucket, which each file explains; and those that their result goes to:
--   read       the bucket from its `text`; is_sound
--   advance    the bucket to now; is_redated if it was dated too late to be believed
--   judge      outcome and wait_us of a cost
--   give_back  takes a cost off, for MODE_REFUND or MODE_GIVE_BACK (of the payment at paid_at_us)
--   report     remaining, reset_us
--   write      text, if the bucket is not full
-- Pieces are no functions, because Redis runs a script from its first line in each call: it makes all its functions again, with an object
-- for every local that they share. For the same reason the functions of rare kinds of takes are made where a call first needs them.

local now_us, lifetime_extra_ms = unpack_numbers('<d', ARGV[1]), 60000
if now_us == 0 then
  local time = call('TIME')
  now_us, lifetime_extra_ms = tonumber(time[1]) * 1000000 + tonumber(time[2]), 0
end

local limits, groups = ARGV[2], ARGV[3]

-- A key of another type reads as nothing here; SET with NX, or EXISTS, finds it in the end.
-- Lua's stack bounds keys to some 8,000, as the numbers of the reply; the largest call has a quarter.
local saved = call('MGET', unpack(KEYS))
-- Both by key, at first with room for two: what the call has changed, as the new text, or false for a bucket that is full; and how long
-- a bucket must last that was changed or may have to last longer, in microseconds.
local texts, lifetimes = { nil, nil }, { nil, nil }
local damaged = 0

-- The buckets of a group that may come back to them, at first with room for two. From each slot on: the pieces' used, at_us and rest;
-- `used` before the group, or CHANGED if the bucket must be written anyway; the limit it belongs to; text and lifetime before the
-- group.
local USED, AT_US, REST, OPENED, UNDER, TEXT, LIFETIME, WIDTH = 1, 2, 3, 4, 5, 6, 7, 7
local CHANGED = -1
local working
-- By key, the slot of its bucket, plus a multiple of SLOTS_MAX that tells to which group the slot belongs (`slots_before`).
local slot_of
local SLOTS_MAX = 10000

-- With room for the reply to a call of two takes.
local out = { now_us, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
local size_of_out = 2

local change, log, holds
if ARGV[4] then
  -- FILE holds.lua
end

-- The limit that was read last, with its index.
local read_limit, algorithm, amount, burst, seconds, debt_max
-- A group of several payments is settled without slots, as a lone take is, as long as all of them pass and no two are on one bucket. The
-- first group of which that is not so starts over with slots, and so do all groups after it: so a call starts over once at most.
local uses_slots = false
-- By key, text and lifetime before the group, of a bucket that the call has changed before.
local earlier_texts, earlier_lifetimes
local at = 1
while at <= #groups do
  local size, latest_us, spare_quota, key, limit, descriptor, kind, mode, cost = unpack_numbers('<ddddddddd', groups, at)
  -- Where the numbers of the first and the last take begin. A take has six there and six in the reply, so the answer of the take at `take`
  -- begins at out[take / 8 + to_out].
  local first, last = at + 24, at + size * 48 - 24
  local to_out = size_of_out + 2 - first / 8
  local verdict, starts_over, damaged_before = VERDICT_ALLOWED, false, damaged
  out[size_of_out + 1] = verdict

  if latest_us > 0 and now_us > latest_us then
    verdict = VERDICT_TOO_LATE
  end

  if verdict == VERDICT_ALLOWED then
    -- Whether the group may come back to its buckets, and whether it has done so after it had answered for them.
    local may_return, is_stale, slots, slots_before = holds or (uses_slots and size > 1), false
    local may_start_over = size > 1 and not may_return
    local is_refused, is_over, has_quota, has_quota_room, descriptor_first = false, false, false, spare_quota == 1, first

    -- Judges each descriptor on what earlier ones left, pays it tentatively, and undoes that if it is over, or in the end the group.
    local take = first
    repeat
      if limit ~= read_limit then
        read_limit, algorithm, amount, burst, seconds, debt_max = limit, unpack_numbers('<ddddd', limits, limit * 40 - 39)
      end
      local outcome, wait_us, paid_at_us, capped, remaining, reset_us = OUTCOME_ROOM, 0, 0, 0, 0, 0
      if may_start_over then
        starts_over = mode > MODE_PEEK
        if lifetimes[key] then
          for before = first, take - 48, 48 do
            starts_over = starts_over or unpack_numbers('<d', groups, before) == key
          end
          if not earlier_texts then earlier_texts, earlier_lifetimes = {}, {} end
          if not starts_over then earlier_texts[key], earlier_lifetimes[key] = texts[key], lifetimes[key] end
        end
        if starts_over then break end
      end
      if may_return or mode > MODE_PEEK then
        if not slots then may_return, slots, slots_before = true, 0, first * SLOTS_MAX end
        if not working then working, slot_of = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, { nil, nil } end
        if not change and (mode > MODE_PEEK or holds) then
          -- FILE change.lua
        end
      end
      if algorithm == SLIDING_LOG and not log then
        -- FILE sliding_log.lua
      end
      if holds and take == first and not holds.begin(first, last) then
        verdict = VERDICT_HOLDS_FULL
        break
      end

      local used, at_us, rest, opened, slot = 0, now_us, 0, CHANGED, may_return and (slot_of[key] or 0) - slots_before
      if slot and slot >= 0 then
        used, at_us, rest, opened = working[slot + USED], working[slot + AT_US], working[slot + REST], working[slot + OPENED]
        if algorithm == TOKEN_BUCKET and working[slot + UNDER] ~= limit then
          -- The part of a tick is counted under the limit under which it passed.
          used, opened, at_us, rest = used - rest, opened - rest, max(at_us, now_us), 0
        end
        is_stale = true
      else
        local text, is_sound, is_redated = texts[key], true, false
        if text == nil then text = saved[key] end
        if text then
          -- EACH read
          if not is_sound then used, at_us, rest, damaged = 0, now_us, 0, damaged + 1 end
        end
        -- EACH advance
        if is_sound and not is_redated and not (holds and holds.have_ended(key)) then opened = used end
        if slot then
          slot = slots
          slots, slot_of[key] = slots + WIDTH, slot + slots_before
          working[slot + TEXT], working[slot + LIFETIME] = texts[key], lifetimes[key]
        end
      end
      if slot then
        working[slot + USED], working[slot + AT_US], working[slot + REST] = used, at_us, rest
        working[slot + OPENED], working[slot + UNDER] = opened, limit
      end

      local hold = holds and holds.of_take[take]
      if mode <= MODE_PEEK then
        -- EACH judge
        if outcome ~= OUTCOME_ROOM then
          if hold and (outcome == OUTCOME_OVER or hold.is_concurrent) then
            wait_us = holds.wait_us(hold, wait_us, limit, cost, used, at_us, rest)
          end
        elseif mode == MODE_PAY then
          if hold then holds.note_payment(hold, used - rest) end
          used, paid_at_us = used + (algorithm == TOKEN_BUCKET and cost * TICKS or cost), at_us > now_us and at_us or now_us
          if slot then working[slot + USED] = used end
        end
      else
        if mode == MODE_POST_PAID then
          if hold then holds.note_payment(hold, used - rest) end
          paid_at_us, capped = max(now_us, at_us), change(slot, limit, mode, cost, 0, now_us)
        elseif mode == MODE_GIVE_BACK then
          if hold then holds.close(hold, slot, limit, cost, descriptor) else change(slot, limit, mode, cost, descriptor, now_us) end
        end
        used, at_us, rest, opened = working[slot + USED], working[slot + AT_US], working[slot + REST], working[slot + OPENED]
      end
      if may_start_over and (outcome ~= OUTCOME_ROOM or used == opened) then
        starts_over = true
        break
      end
      -- FILE report.lua

      local answer = take / 8 + to_out
      out[answer], out[answer + 1], out[answer + 2] = paid_at_us > 0 and outcome + STATUS_PAID or outcome, remaining, wait_us
      out[answer + 3], out[answer + 4], out[answer + 5] = reset_us, paid_at_us, capped

      if outcome ~= OUTCOME_ROOM then is_over = true end
      local ended_descriptor, ended_kind = descriptor, kind
      take = take + 48
      if take <= last then key, limit, descriptor, kind, mode, cost = unpack_numbers('<dddddd', groups, take) end
      -- Not for a lone take that passes.
      if (is_over or may_return or ended_kind == KIND_QUOTA) and (take > last or descriptor ~= ended_descriptor) then
        local undone_first = is_over and descriptor_first
        if ended_kind == KIND_QUOTA then
          has_quota, has_quota_room = true, has_quota_room or not is_over
        elseif is_over and ended_kind == KIND_ORDINARY then
          is_refused = true
        end
        if take > last and (is_refused or (has_quota and not has_quota_room)) then verdict, undone_first = VERDICT_REFUSED, first end
        if undone_first and may_return then
          for undone = undone_first, take - 48, 48 do
            local undone_answer = undone / 8 + to_out
            local undone_key, undone_limit, _, _, undone_mode, undone_cost = unpack_numbers('<dddddd', groups, undone)
            if undone_mode == MODE_PAY and out[undone_answer + 4] > 0 then
              local slot = slot_of[undone_key] - slots_before
              if unpack_numbers('<d', limits, undone_limit * 40 - 39) == TOKEN_BUCKET then undone_cost = undone_cost * TICKS end
              working[slot + USED] = working[slot + USED] - undone_cost
              out[undone_answer], out[undone_answer + 4], is_stale = out[undone_answer] - STATUS_PAID, 0, true
            end
          end
        end
        is_over, descriptor_first = false, take
      end
    until take > last

    if starts_over then
      for undone = first, take - 48, 48 do
        local key = unpack_numbers('<d', groups, undone)
        texts[key], lifetimes[key] = nil, nil
        if earlier_texts then texts[key], lifetimes[key] = earlier_texts[key], earlier_lifetimes[key] end
      end
    end
    if may_return and verdict <= VERDICT_REFUSED then
      -- Refunds and settlements come last, so that no take of the same group passes because of them.
      for take = first, change and last or 0, 48 do
        local key, limit, _, _, mode, cost = unpack_numbers('<dddddd', groups, take)
        local slot, answer = (slot_of[key] or 0) - slots_before, take / 8 + to_out
        if mode == MODE_SETTLE then
          out[answer], is_stale = OUTCOME_ROOM + STATUS_PAID, true
          out[answer + 4], out[answer + 5] = holds.settle(holds.of_take[take], slot, limit, cost)
        elseif mode == MODE_REFUND and slot >= 0 then
          out[answer], out[answer + 4], is_stale = OUTCOME_ROOM + STATUS_PAID, max(now_us, working[slot + AT_US]), true
          change(slot, limit, mode, cost, 0, now_us)
        end
      end
      if holds then holds.conclude(first, last, to_out) end

      -- Answers again, from the texts before the group on.
      for take = first, is_stale and last or 0, 48 do
        local key = unpack_numbers('<d', groups, take)
        local slot = (slot_of[key] or 0) - slots_before
        if slot >= 0 then texts[key], lifetimes[key] = working[slot + TEXT], working[slot + LIFETIME] end
      end
      for take = first, is_stale and last or 0, 48 do
        local key, limit = unpack_numbers('<dd', groups, take)
        local algorithm, amount, burst, seconds = unpack_numbers('<dddd', limits, limit * 40 - 39)
        local answer, remaining, reset_us = take / 8 + to_out, 0, 0
        local slot = slot_of[key] - slots_before
        local used, at_us, rest, opened = working[slot + USED], working[slot + AT_US], working[slot + REST], working[slot + OPENED]
        -- FILE report.lua
        out[answer + 1], out[answer + 3] = remaining, reset_us
      end
    end
  end

  if starts_over then
    uses_slots, damaged = true, damaged_before
  else
    if verdict ~= VERDICT_ALLOWED then out[size_of_out + 1] = verdict end
    size_of_out = verdict <= VERDICT_REFUSED and last / 8 + to_out + 5 or size_of_out + 1
    at = last + 48
  end
end

if holds then size_of_out = holds.report(size_of_out) end

for key = 1, #KEYS do
  local lifetime_us = lifetimes[key]
  if lifetime_us then
    local name, text, was_there, ms = KEYS[key], texts[key], saved[key], ceil(min(WAIT_US_MAX, lifetime_us) / 1000)
    if text then
      ms = format(ONE, ms + lifetime_extra_ms)
      if was_there then
        call('SET', name, text, 'PX', ms)
      elseif not call('SET', name, text, 'PX', ms, 'NX') then
        damaged = damaged + 1
        call('SET', name, text, 'PX', ms)
      end
    elseif was_there and text == nil then
      -- An unchanged bucket. Its lifetime was set by the rate of the last write, and a lower rate needs a longer one. Both are rounded,
      -- so a difference of a millisecond does not count.
      if call('PTTL', name) + 1 < ms then call('PEXPIRE', name, format(ONE, ms + lifetime_extra_ms)) end
    elseif was_there or call('EXISTS', name) == 1 then
      if not was_there then damaged = damaged + 1 end
      call('DEL', name)
    end
  end
end

if holds then holds.write_all() end

out[2] = damaged
-- The formats of the reply to a call of one or two takes are reused.
local reply_format = size_of_out == 9 and '<ddddddddd' or size_of_out == 15 and '<ddddddddddddddd' or '<' .. rep('d', size_of_out)
return pack_numbers(reply_format, unpack(out, 1, size_of_out))
