-- Decides any group of takes, each as a whole, so that a refused call pays nothing. The twin of
-- src/engine/algorithms/settlement.ts. Takes are counted from 0. A take's numbers begin at first + i * TAKE_BYTES in
-- the groups, its answer at answers + i * TAKE_NUMBERS in the reply.
--
-- A take that may pass in one of two ways: the guarantee before it decides by which of its two limits it is judged,
-- before either is paid. `undo`, `report` and the writes know only what was paid in the end, by the bucket and limit in
-- bucket_of and limit_of.

local function settlement(now_us, limits, groups, saved, texts, lifetimes, reply, holds)
  local WAIT, PAID_AT, CAPPED = 2, 4, 5 -- where an answer has these numbers, after its status
  -- Bucket and limit of each take of the group.
  local bucket_of, limit_of = { [0] = false, nil }, { [0] = false, nil }
  -- The buckets of the group, and these by their keys, or false. The tables are used again for the next group.
  local buckets, bucket_count, by_key, damaged = { nil, nil }, 0, { nil, nil }, 0
  for key = 1, #saved do by_key[key] = false end

  -- A bucket of the group. The first take on it fills it from its text, and brings it to now.
  local function open(key, limit)
    local MUST_WRITE = -1 -- in place of what was used when it was opened: it is written even if the group changes nothing
    local bucket, steps, text = by_key[key], limit.steps, texts[key]
    if bucket then
      if bucket.limit ~= limit and limit.algorithm == TOKEN_BUCKET then
        -- The refill so far is counted under the limit under which it passed. Refill by time alone is no change that
        -- must be written.
        bucket.used, bucket.opened_used = bucket.used - bucket.refill, bucket.opened_used - bucket.refill
        bucket.at_us, bucket.refill = max(bucket.at_us, now_us), 0
      end
      bucket.limit = limit
      return bucket
    end
    bucket_count = bucket_count + 1
    bucket = buckets[bucket_count]
    if not bucket then
      bucket = { key = key, limit = limit, used = 0, at_us = 0, previous = 0, refill = 0, opened_used = 0, opened_previous = 0 }
      buckets[bucket_count] = bucket
    end
    by_key[key], bucket.key, bucket.limit, bucket.previous = bucket, key, limit, 0
    local must_write
    if text == nil then text = saved[key] end
    if text and steps.read(bucket, text, limit, now_us) then
      must_write = steps.advance(bucket, limit, now_us)
    else
      steps.clear(bucket, limit, now_us)
      must_write = text
      if text then damaged = damaged + 1 end
    end
    if holds and holds.have_ended(key) then must_write = true end
    bucket.opened_used, bucket.opened_previous = must_write and MUST_WRITE or bucket.used, bucket.previous
    return bucket
  end

  -- Judges a take, and pays it tentatively. Writes status, wait, time of payment and capped hits; true if the take is
  -- over.
  local function judge(bucket, limit, mode, cost, given_back_us, hold, answer)
    local steps, status, wait_us, paid_at_us, capped_hits = limit.steps, OUTCOME_ROOM, 0, 0, 0
    if mode <= MODE_PEEK then status, wait_us = steps.judge(bucket, limit, cost, now_us) end
    local is_over = status ~= OUTCOME_ROOM
    if is_over then
      if hold then wait_us = holds.wait_us(hold, bucket, status, wait_us, cost) end
    elseif mode == MODE_PAY or mode == MODE_POST_PAID then
      if hold then holds.note_payment(hold, bucket) end
      if mode == MODE_PAY then steps.pay(bucket, cost) else capped_hits = steps.post_pay(bucket, limit, cost, now_us) end
      status, paid_at_us = status + STATUS_PAID, bucket.at_us > now_us and bucket.at_us or now_us
    elseif mode == MODE_GIVE_BACK then
      if hold then
        holds.close(hold, bucket, cost, given_back_us)
      else
        steps.give_back(bucket, limit, cost, given_back_us, now_us)
      end
    end
    reply[answer], reply[answer + WAIT], reply[answer + PAID_AT], reply[answer + CAPPED] = status, wait_us, paid_at_us, capped_hits
    return is_over
  end

  -- Pays the caller's guarantee if both it and the whole room of the shared limit have room for the cost. Writes when
  -- it could cover the cost, 0 for now. Returns the limit by which the take on the shared limit, the next one, is
  -- judged.
  local function judge_guarantee(bucket, limit, whole, cost, shared_key, shared_limit, shared_mode, answer)
    local outcome, wait_us = limit.steps.judge(bucket, limit, cost, now_us)
    local room, room_wait_us = whole.steps.judge(open(shared_key, whole), whole, cost, now_us)
    local status, paid_at_us, chosen = OUTCOME_ROOM, 0, whole
    if outcome ~= OUTCOME_ROOM then
      chosen = shared_limit
      if outcome == OUTCOME_NEVER or room == OUTCOME_NEVER then wait_us = WAIT_US_MAX else wait_us = max(wait_us, room_wait_us) end
    elseif room == OUTCOME_ROOM and shared_mode == MODE_PAY then
      limit.steps.pay(bucket, cost)
      status, paid_at_us = OUTCOME_ROOM + STATUS_PAID, bucket.at_us > now_us and bucket.at_us or now_us
    end
    reply[answer], reply[answer + WAIT], reply[answer + PAID_AT], reply[answer + CAPPED] = status, wait_us, paid_at_us, 0
    return chosen
  end

  -- Mode and cost of a take.
  local function question_of(take)
    return unpack_numbers('<dd', groups, take + 32)
  end

  -- Undoes the tentative payments of takes; post-paid ones stay.
  local function undo(from, to, first, answers)
    for i = from, to do
      local answer, mode, cost = answers + i * TAKE_NUMBERS, question_of(first + i * TAKE_BYTES)
      if (mode == MODE_PAY or mode == MODE_GUARANTEE) and reply[answer] > STATUS_PAID then
        limit_of[i].steps.pay(bucket_of[i], -cost)
        reply[answer], reply[answer + PAID_AT] = reply[answer] - STATUS_PAID, 0
      end
    end
  end

  -- Applies refunds and settlements. They come last, so that no take of the same group passes because of them.
  local function correct(size, first, answers)
    for i = 0, size - 1 do
      local take, answer, bucket = first + i * TAKE_BYTES, answers + i * TAKE_NUMBERS, bucket_of[i]
      local mode, cost = question_of(take)
      if mode == MODE_REFUND then
        bucket.limit.steps.refund(bucket, limit_of[i], cost, now_us)
        reply[answer], reply[answer + PAID_AT] = OUTCOME_ROOM + STATUS_PAID, max(bucket.at_us, now_us)
      elseif mode == MODE_SETTLE then
        reply[answer] = OUTCOME_ROOM + STATUS_PAID
        reply[answer + PAID_AT], reply[answer + CAPPED] = holds.settle(holds.of_take[take], bucket, cost)
      end
    end
  end

  -- Writes remaining and reset of each take, and keeps changed buckets as text. Limits that share a bucket may differ
  -- in amount: the longest lifetime counts. Only of a token bucket may it be longer without a change.
  local function report(size, answers)
    local REMAINING, RESET = 1, 3
    for i = 0, size - 1 do
      local bucket, limit, answer = bucket_of[i], limit_of[i], answers + i * TAKE_NUMBERS
      local steps, key = limit.steps, bucket.key
      local remaining, reset_us = steps.report(bucket, limit, now_us)
      reply[answer + REMAINING], reply[answer + RESET] = remaining, reset_us
      local is_changed = bucket.used ~= bucket.opened_used or bucket.previous ~= bucket.opened_previous
      if is_changed then texts[key] = steps.write(bucket) end
      if is_changed or limit.algorithm == TOKEN_BUCKET or not saved[key] or holds then
        local lasts_us = lifetimes[key]
        if not lasts_us or lasts_us < reset_us then lifetimes[key] = reset_us end
      end
    end
    for i = 1, bucket_count do by_key[buckets[i].key] = false end
    bucket_count = 0
  end

  -- Settles a group whose takes begin at `first`, and writes its answers into the reply from `answers` on. Each
  -- descriptor is judged on what earlier ones left, and undone if any of its takes is over. The group is refused by an
  -- ordinary descriptor that is over, or by quota descriptors if all of them are. Returns the verdict (after
  -- VERDICT_HOLDS_FULL there are no answers), and how many buckets were damaged so far.
  return function(size, first, answers, has_spare_quota)
    if holds and not holds.begin(size, first) then return VERDICT_HOLDS_FULL, damaged end
    local is_refused, has_quota, has_quota_room, has_corrections = false, false, has_spare_quota, false
    local is_over, from = false, 0
    local key, limit, descriptor, kind, mode, cost = unpack_numbers('<dddddd', groups, first)
    local chosen -- the limit that a guarantee has chosen for the next take
    for i = 0, size - 1 do
      local take = first + i * TAKE_BYTES
      limit, chosen = chosen or limits[limit]
      local bucket, hold = open(key, limit), holds and holds.of_take[take]
      bucket_of[i], limit_of[i] = bucket, limit
      if mode == MODE_GUARANTEE then
        local shared_key, shared, _, _, shared_mode = unpack_numbers('<ddddd', groups, take + TAKE_BYTES)
        chosen = judge_guarantee(bucket, limit, limits[kind], cost, shared_key, limits[shared], shared_mode, answers + i * TAKE_NUMBERS)
      else
        -- A payment of a guarantee returns as the shared limit's does.
        local judged_by = mode == MODE_GIVE_BACK and limits[kind] or limit
        is_over = judge(bucket, judged_by, mode, cost, descriptor, hold, answers + i * TAKE_NUMBERS) or is_over
      end
      has_corrections = has_corrections or mode == MODE_REFUND or mode == MODE_SETTLE
      local judged, judged_kind, is_last = descriptor, kind, i == size - 1
      if not is_last then key, limit, descriptor, kind, mode, cost = unpack_numbers('<dddddd', groups, take + TAKE_BYTES) end
      if is_last or descriptor ~= judged then
        if is_over then undo(from, i, first, answers) end
        if judged_kind == KIND_QUOTA then has_quota, has_quota_room = true, has_quota_room or not is_over end
        is_refused = is_refused or (is_over and judged_kind == KIND_ORDINARY)
        is_over, from = false, i + 1
      end
    end
    is_refused = is_refused or (has_quota and not has_quota_room)
    if is_refused then undo(0, size - 1, first, answers) end
    if has_corrections then correct(size, first, answers) end
    if holds then holds.conclude(size, first, answers) end
    report(size, answers)
    return is_refused and VERDICT_REFUSED or VERDICT_ALLOWED, damaged
  end
end
