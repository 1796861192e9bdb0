-- Takes for a list of groups, in one call and one transaction. Groups are settled one after another, each as a whole.
-- keys         every bucket's key, once
-- injected_us  time in microseconds, or 0 for the server's own
-- limits       per limit: algorithm (4: a counter), amount, burst, window in seconds, most debt, how long its holds last in
--              microseconds (0: payments are final), 1 if it counts holds
-- groups       per group: number of takes, latest time at which it may pay (0: any), the sum of 1 if a quota descriptor without
--              a limit has room, 2 if there are counters, 4 if a call that is over charges only the counters that are over;
--              and per take: key, limit, descriptor, kind, mode, cost, time of payment (of a give-back), hold (0: none). Keys,
--              limits and holds are given by their place, counted from 1.
-- hold_ids     the ids of holds; null if no limit has holds
-- locks        true: reads lock their rows, which is exact under READ COMMITTED; false: SERIALIZABLE keeps calls apart
-- waits        true: waits for locked rows, up to lock_timeout, which fails the whole call; false: passes them over
-- reply        time, damaged buckets; then per group its verdict. After the verdict of a locked row come its key's place and the
--              transaction that holds it. After allowed and refused come per take: outcome (plus 4 if paid, plus 8 if a hold was
--              opened), remaining, wait and reset in microseconds, time of payment (of a charge: the count; of a settlement: what
--              was held; of a peek at holds: how many there are), capped hits. At the end per bucket with ended holds: its key's
--              place, how many ended
-- state        as each algorithm's file says; a row that makes no sense counts as none and is overwritten
-- A refusal writes only one thing: it keeps a bucket longer whose rate was lowered. Time is read after the rows are locked, so
-- it never runs back for a bucket. A bucket with holds has a row.
CREATE OR REPLACE FUNCTION take_all_v4(
  keys text[], injected_us bigint, limits bigint[], groups bigint[], hold_ids text[], locks boolean, waits boolean
)
RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  limit_size CONSTANT int := 7; -- numbers of a limit
  take_size CONSTANT int := 8; -- numbers of a take
  lifetime_max_us CONSTANT bigint := 315360000000000;
  exact_max CONSTANT bigint := 9007199254740991;
  zeros CONSTANT bigint[] := array_fill(0::bigint, ARRAY[cardinality(keys)]);
  has_holds CONSTANT boolean := hold_ids IS NOT NULL;
  now_us bigint := injected_us;
  damaged bigint := 0;
  -- By the place of the key: the saved state, the current group's state, the state when the group opened the bucket.
  is_kept boolean[] := array_fill(false, ARRAY[cardinality(keys)]);
  saved_at bigint[] := zeros; saved_used bigint[] := zeros; saved_previous bigint[] := zeros;
  at_us bigint[] := zeros; used bigint[] := zeros; previous bigint[] := zeros; entries bigint[] := zeros;
  opened_used bigint[] := zeros; opened_previous bigint[] := zeros; redated bigint[] := zeros;
  lifetime_us bigint[] := zeros; expires_us bigint[] := zeros; kept_until bigint[] := zeros;
  opened_by bigint[] := zeros; -- the group that opened it last, by where that begins
  opened_for bigint[] := zeros; -- the limit it was last opened for, by its place
  with_holds held_bucket_v1[];
  row_holder bigint[]; -- who keeps the rows that were passed over
  has_changes boolean := false;
  rows_read int := 0;
  ends_left bigint; -- how many holds the call may still end
  ended bigint;
  is_late boolean; is_full boolean; opens_hold boolean;
  -- The group's takes, by their place in it.
  outcome bigint[]; wait_us bigint[]; paid_us bigint[]; capped bigint[]; counted bigint[];
  has_over boolean; is_denied boolean;
  is_refused boolean; is_over boolean; has_quota boolean; has_quota_room boolean;
  saved record;
  bucket held_bucket_v1;
  state bigint[];
  reply bigint[] := ARRAY[0, 0]::bigint[];
  written int := 2; -- numbers of the reply
  -- Where the group, its first take and the next group begin.
  group_at int := 1; first int; next_group int;
  -- Where the take begins in `groups`, and its place in the group.
  take_at int; take int; undo_from int; undone_at int; pass int;
  key int; -- the place of the take's key
  limit_at int; other_at int; -- where a limit begins, less 1
  mode bigint; cost bigint; descriptor bigint; kind bigint;
BEGIN
  FOR saved IN SELECT * FROM read_buckets_v2(keys, locks, waits) LOOP
    key := saved.place; rows_read := rows_read + 1;
    is_kept[key] := true; kept_until[key] := saved.expires_us;
    saved_at[key] := saved.at_us; saved_used[key] := saved.used; saved_previous[key] := saved.previous;
  END LOOP;
  IF locks AND NOT waits AND rows_read < cardinality(keys) THEN
    FOR saved IN SELECT * FROM held_buckets(keys, is_kept) LOOP row_holder[saved.place] := saved.holder; END LOOP;
  END IF;
  IF now_us = 0 THEN now_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint; END IF;

  IF has_holds THEN
    -- Whoever changes holds has locked the bucket's row, or inserts it first.
    WHILE group_at <= cardinality(groups) LOOP
      first := group_at + 3; next_group := first + groups[group_at]::int * take_size;
      is_late := groups[group_at + 1] > 0 AND now_us > groups[group_at + 1];
      group_at := next_group;
      CONTINUE WHEN is_late;
      FOR take_at IN first .. next_group - 1 BY take_size LOOP
        key := groups[take_at];
        IF limits[(groups[take_at + 1] - 1) * limit_size + 6] > 0 AND NOT is_kept[key] AND row_holder[key] IS NULL THEN
          expires_us[key] := now_us; has_changes := true;
        END IF;
      END LOOP;
    END LOOP;
    group_at := 1; ends_left := 32;
    IF has_changes THEN
      PERFORM write_buckets_v2(keys, is_kept, saved_at, saved_used, saved_previous, expires_us);
      has_changes := false;
      FOR made IN 1 .. cardinality(keys) LOOP
        CONTINUE WHEN expires_us[made] = 0;
        is_kept[made] := true; kept_until[made] := now_us; expires_us[made] := 0;
      END LOOP;
    END IF;
  END IF;

  WHILE group_at <= cardinality(groups) LOOP
    first := group_at + 3;
    next_group := first + groups[group_at]::int * take_size;
    IF groups[group_at + 1] > 0 AND now_us > groups[group_at + 1] THEN
      written := written + 1; reply[written] := verdict_too_late(); group_at := next_group;
      CONTINUE;
    END IF;
    IF row_holder IS NOT NULL THEN
      key := 0;
      FOR take_at IN first .. next_group - 1 BY take_size LOOP
        IF row_holder[groups[take_at]] IS NOT NULL THEN key := groups[take_at]; END IF;
      END LOOP;
      IF key > 0 THEN
        reply[written + 1] := verdict_row_held(); reply[written + 2] := key; reply[written + 3] := row_holder[key];
        written := written + 3; group_at := next_group;
        CONTINUE;
      END IF;
    END IF;
    IF has_holds THEN
      -- Payments that need room for one more hold open their buckets first.
      is_full := false;
      FOREACH opens_hold IN ARRAY ARRAY[true, false] LOOP
        FOR take_at IN first .. next_group - 1 BY take_size LOOP
          key := groups[take_at]; limit_at := (groups[take_at + 1] - 1) * limit_size;
          CONTINUE WHEN is_full OR limits[limit_at + 6] = 0 OR opens_hold <>
            (groups[take_at + 4] = mode_pay() AND (groups[take_at + 7] > 0 OR limits[limit_at + 7] = 1));
          IF opened_by[key] <> group_at THEN
            ended := coalesce((with_holds[key]).ended, 0);
            bucket := look_at_v1(with_holds[key], limits, limit_at, saved_at[key], saved_used[key], saved_previous[key]);
            bucket := open_held_v1(bucket, keys[key], ends_left, now_us);
            with_holds[key] := bucket; ends_left := ends_left - (bucket.ended - ended);
            damaged := damaged + bucket.is_damaged::int;
            IF (bucket.is_damaged OR bucket.is_redated) AND NOT bucket.is_concurrent THEN
              saved_at[key] := bucket.at_us; saved_used[key] := bucket.used; saved_previous[key] := bucket.previous;
              expires_us[key] := now_us; has_changes := true;
            END IF;
            at_us[key] := bucket.at_us; used[key] := bucket.used; previous[key] := bucket.previous;
            redated[key] := bucket.is_redated::int;
            opened_used[key] := bucket.used; opened_previous[key] := bucket.previous; lifetime_us[key] := 0; opened_by[key] := group_at;
            opened_for[key] := groups[take_at + 1];
          ELSIF opens_hold AND opened_for[key] <> groups[take_at + 1] AND limits[limit_at + 1] = of_token_bucket() THEN
            -- As below.
            other_at := (opened_for[key]::int - 1) * limit_size;
            state := step_v3('hand_over', limits, other_at, keys[key], at_us[key], used[key], 0, 0, 0, 0, now_us);
            at_us[key] := state[1]; opened_used[key] := opened_used[key] + state[2] - used[key]; used[key] := state[2];
            opened_for[key] := groups[take_at + 1];
          END IF;
          is_full := opens_hold AND (with_holds[key]).live >= 10000;
        END LOOP;
      END LOOP;
      IF is_full THEN
        written := written + 1; reply[written] := verdict_holds_full(); group_at := next_group;
        CONTINUE;
      END IF;
    END IF;
    outcome := NULL; wait_us := NULL; paid_us := NULL; capped := NULL; counted := NULL;
    is_refused := false; has_quota := false; has_quota_room := groups[group_at + 2] % 2 = 1;
    -- A call that stops at over charges only the counters that would be, and none if one of them is denied already.
    has_over := false; is_denied := false;
    IF groups[group_at + 2] >= 4 THEN
      FOR take_at IN first .. next_group - 1 BY take_size LOOP
        is_denied := is_denied OR groups[take_at + 4] = mode_denied();
        has_over := has_over OR (groups[take_at + 4] = mode_charge()
          AND groups[take_at + 5]
            > limits[(groups[take_at + 1] - 1) * limit_size + 2] - greatest(0, saved_used[groups[take_at]]));
      END LOOP;
    END IF;

    -- Tries all takes, descriptor by descriptor, on what earlier takes left.
    take_at := first; take := 1;
    WHILE take_at < next_group LOOP
      descriptor := groups[take_at + 2]; kind := groups[take_at + 3]; is_over := false; undo_from := take;
      WHILE take_at < next_group AND groups[take_at + 2] = descriptor LOOP
        key := groups[take_at]; limit_at := (groups[take_at + 1] - 1) * limit_size;
        mode := groups[take_at + 4]; cost := groups[take_at + 5];
        IF opened_by[key] <> group_at THEN
          state := step_v3('open', limits, limit_at, keys[key], saved_at[key], saved_used[key], saved_previous[key], 0, 0, 0, now_us);
          IF state IS NULL THEN
            damaged := damaged + 1; has_changes := true;
            saved_at[key] := 0; saved_used[key] := 0; saved_previous[key] := 0; expires_us[key] := now_us;
            state := step_v3('open', limits, limit_at, keys[key], 0, 0, 0, 0, 0, 0, now_us);
          END IF;
          at_us[key] := state[1]; used[key] := state[2]; previous[key] := state[3];
          redated[key] := state[4]; entries[key] := state[5];
          opened_used[key] := state[2]; opened_previous[key] := state[3]; lifetime_us[key] := 0; opened_by[key] := group_at;
          opened_for[key] := groups[take_at + 1];
        ELSIF opened_for[key] <> groups[take_at + 1] AND limits[limit_at + 1] = of_token_bucket() THEN
          -- Another limit continues with the bucket: a rule and an override of it in one call.
          other_at := (opened_for[key]::int - 1) * limit_size;
          state := step_v3('hand_over', limits, other_at, keys[key], at_us[key], used[key], 0, 0, 0, 0, now_us);
          at_us[key] := state[1]; opened_used[key] := opened_used[key] + state[2] - used[key]; used[key] := state[2];
          opened_for[key] := groups[take_at + 1];
        END IF;
        outcome[take] := outcome_room(); wait_us[take] := 0; paid_us[take] := 0; capped[take] := 0;
        IF mode = mode_pay() OR mode = mode_peek() THEN
          state := step_v3('judge', limits, limit_at, keys[key], at_us[key], used[key], previous[key], entries[key], cost, 0, now_us);
          outcome[take] := state[1]; wait_us[take] := state[2];
          IF state[1] <> outcome_room() THEN
            is_over := true;
            IF limits[limit_at + 7] = 1 AND (with_holds[key]).live > 0 THEN
              wait_us[take] := hold_wait_v1(with_holds[key], now_us);
            END IF;
          END IF;
        END IF;
        IF mode = mode_charge() THEN
          IF is_denied OR (has_over AND cost <= limits[limit_at + 2] - opened_used[key]) THEN
            cost := 0;
          ELSE
            paid_us[take] := now_us;
          END IF;
          state := step_v3('charge', limits, limit_at, keys[key], 0, used[key], 0, 0, cost, 0, now_us);
          used[key] := state[2]; counted[take] := state[2];
        ELSIF mode = mode_denied() THEN
          counted[take] := limits[limit_at + 2] + 1;
        END IF;
        IF counted[take] > limits[limit_at + 2] THEN
          outcome[take] := outcome_over(); is_over := true;
        END IF;
        IF mode = mode_post_paid() OR (mode = mode_pay() AND outcome[take] = outcome_room()) THEN
          IF has_holds AND limits[limit_at + 6] > 0 THEN
            bucket := look_at_v1(with_holds[key], limits, limit_at, at_us[key], used[key], previous[key]);
            with_holds[key] := note_payment_v1(bucket, now_us);
          END IF;
          paid_us[take] := greatest(now_us, at_us[key]);
          state := step_v3(CASE mode WHEN mode_pay() THEN 'pay' ELSE 'post_pay' END, limits, limit_at,
            keys[key], at_us[key], used[key], previous[key], entries[key], cost, 0, now_us);
          used[key] := state[2]; previous[key] := state[3];
          IF mode = mode_post_paid() THEN capped[take] := state[4]; END IF;
        END IF;
        take_at := take_at + take_size; take := take + 1;
      END LOOP;
      IF kind = kind_ordinary() THEN is_refused := is_refused OR is_over; END IF;
      IF kind = kind_quota() THEN
        has_quota := true; has_quota_room := has_quota_room OR NOT is_over;
      END IF;
      -- A descriptor that is over pays nothing; after the last descriptor, nor does a refused group.
      FOR pass IN 1 .. 2 LOOP
        IF pass = 2 THEN
          EXIT WHEN take_at < next_group;
          is_refused := is_refused OR (has_quota AND NOT has_quota_room);
          is_over := is_refused; undo_from := 1;
        END IF;
        CONTINUE WHEN NOT is_over;
        FOR undone IN undo_from .. take - 1 LOOP
          undone_at := first + (undone - 1) * take_size;
          CONTINUE WHEN paid_us[undone] = 0 OR groups[undone_at + 4] <> mode_pay();
          key := groups[undone_at]; cost := -groups[undone_at + 5]; limit_at := (groups[undone_at + 1] - 1) * limit_size;
          paid_us[undone] := 0;
          state := step_v3('pay', limits, limit_at, keys[key], at_us[key], used[key], previous[key], entries[key], cost, 0, now_us);
          used[key] := state[2]; previous[key] := state[3];
        END LOOP;
      END LOOP;
    END LOOP;

    -- Refunds, settlements and give-backs come last, so that no take of the same call passes because of them.
    take_at := first;
    FOR take IN 1 .. groups[group_at] LOOP
      key := groups[take_at]; limit_at := (groups[take_at + 1] - 1) * limit_size; mode := groups[take_at + 4];
      IF mode >= mode_settle() AND limits[limit_at + 6] > 0 THEN
        bucket := look_at_v1(with_holds[key], limits, limit_at, at_us[key], used[key], previous[key]);
        IF mode = mode_settle() THEN
          bucket := settle_hold_v1(bucket, hold_ids[groups[take_at + 7]], groups[take_at + 5], now_us);
          paid_us[take] := bucket.found; capped[take] := bucket.capped;
        ELSE
          bucket := close_hold_v1(bucket, hold_ids[groups[take_at + 7]], groups[take_at + 5], groups[take_at + 6], now_us);
        END IF;
        with_holds[key] := bucket; at_us[key] := bucket.at_us; used[key] := bucket.used; previous[key] := bucket.previous;
      ELSIF mode = mode_refund() OR mode = mode_give_back() THEN
        IF mode = mode_refund() THEN paid_us[take] := greatest(now_us, at_us[key]); END IF;
        state := step_v3(CASE mode WHEN mode_refund() THEN 'refund' ELSE 'give_back' END, limits, limit_at,
          keys[key], at_us[key], used[key], previous[key], entries[key], groups[take_at + 5], groups[take_at + 6], now_us);
        at_us[key] := state[1]; used[key] := state[2]; previous[key] := state[3]; entries[key] := state[5];
      END IF;
      take_at := take_at + take_size;
    END LOOP;

    -- What is paid now may open holds.
    IF has_holds THEN
      FOR take IN 1 .. groups[group_at] LOOP
        take_at := first + (take - 1) * take_size; key := groups[take_at]; limit_at := (groups[take_at + 1] - 1) * limit_size;
        IF limits[limit_at + 6] > 0 AND groups[take_at + 4] = mode_pay() AND paid_us[take] > 0 THEN
          bucket := look_at_v1(with_holds[key], limits, limit_at, at_us[key], used[key], previous[key]);
          bucket := open_hold_v1(bucket, hold_ids[groups[take_at + 7]], groups[take_at + 5], paid_us[take], now_us);
          IF bucket.live > (with_holds[key]).live THEN outcome[take] := outcome[take] + 8; END IF;
          with_holds[key] := bucket;
        END IF;
        -- A bucket that counts holds is saved in its holds only.
        IF limits[limit_at + 7] = 1 THEN opened_by[key] := 0; END IF;
      END LOOP;
    END IF;

    -- Answers from the buckets' state after the group.
    written := written + 1; reply[written] := CASE WHEN is_refused THEN verdict_refused() ELSE verdict_allowed() END;
    take_at := first;
    FOR take IN 1 .. groups[group_at] LOOP
      key := groups[take_at]; limit_at := (groups[take_at + 1] - 1) * limit_size;
      state := step_v3('report', limits, limit_at, keys[key], at_us[key], used[key], previous[key], entries[key], 0, 0, now_us);
      lifetime_us[key] := greatest(lifetime_us[key], least(state[2], lifetime_max_us));
      reply[written + 1] := outcome[take] + CASE WHEN paid_us[take] <> 0 THEN 4 ELSE 0 END;
      reply[written + 2] := state[1]; reply[written + 3] := wait_us[take]; reply[written + 4] := state[2];
      reply[written + 5] := paid_us[take]; reply[written + 6] := capped[take];
      IF has_holds AND limits[limit_at + 6] > 0 AND groups[take_at + 4] = mode_peek() THEN
        reply[written + 5] := (with_holds[key]).live;
      END IF;
      IF limits[limit_at + 1] = of_counter() THEN
        lifetime_us[key] := limits[limit_at + 4] * 1000000;
        -- What is left right after the charge, whatever came later.
        IF counted[take] IS NOT NULL THEN
          reply[written + 2] := greatest(0, limits[limit_at + 2] - counted[take]);
          reply[written + 5] := least(counted[take], exact_max);
        END IF;
      END IF;
      written := written + 6; take_at := take_at + take_size;
    END LOOP;

    -- The next group finds the changed state as saved.
    take_at := first;
    FOR take IN 1 .. groups[group_at] LOOP
      key := groups[take_at]; limit_at := (groups[take_at + 1] - 1) * limit_size; take_at := take_at + take_size;
      CONTINUE WHEN opened_by[key] = 0;
      opened_by[key] := 0;
      IF limits[limit_at + 1] = of_sliding_log() THEN
        CONTINUE WHEN redated[key] = 0 AND used[key] + previous[key] = opened_used[key];
        state := step_v3('save', limits, limit_at, keys[key], at_us[key], used[key], previous[key], entries[key], 0, 0, now_us);
      ELSE
        IF redated[key] = 0 AND used[key] = opened_used[key] AND previous[key] = opened_previous[key] THEN
          -- The row's lifetime follows from the rate that it was written with; a lower rate needs longer.
          IF limits[limit_at + 1] = of_token_bucket() AND used[key] > 0
            AND greatest(kept_until[key], expires_us[key]) < now_us + lifetime_us[key]
          THEN
            expires_us[key] := now_us + lifetime_us[key]; has_changes := true;
          END IF;
          CONTINUE;
        END IF;
        -- The end of a calendar's window has no meaning while nothing is used in it.
        state := CASE WHEN used[key] = 0 AND (previous[key] = 0 OR limits[limit_at + 1] = of_calendar_window())
          THEN ARRAY[0, 0, 0]::bigint[]
          ELSE ARRAY[at_us[key], used[key], previous[key]] END;
      END IF;
      saved_at[key] := state[1]; saved_used[key] := state[2]; saved_previous[key] := state[3]; has_changes := true;
      -- A bucket that is as new expires now.
      expires_us[key] := now_us + CASE WHEN state[2] = 0 AND state[3] = 0 THEN 0
        ELSE greatest(lifetime_us[key], 1000) END;
    END LOOP;
    group_at := next_group;
  END LOOP;

  IF has_holds THEN
    FOR key IN 1 .. cardinality(keys) LOOP
      bucket := with_holds[key];
      CONTINUE WHEN bucket.bucket_key IS NULL;
      -- Notes about payments count only if the payments are kept.
      IF bucket.is_book_changed OR expires_us[key] > 0 THEN PERFORM write_hold_book_v1(bucket); END IF;
      IF bucket.ended > 0 THEN
        reply[written + 1] := key; reply[written + 2] := bucket.ended; written := written + 2;
      END IF;
      IF expires_us[key] > 0 OR bucket.last_end_us > kept_until[key] THEN
        -- One grain less, which is added again.
        expires_us[key] := greatest(expires_us[key], bucket.last_end_us, kept_until[key] - 1); has_changes := true;
      END IF;
    END LOOP;
  END IF;
  IF has_changes THEN PERFORM write_buckets_v2(keys, is_kept, saved_at, saved_used, saved_previous, expires_us); END IF;
  reply[1] := now_us; reply[2] := damaged;
  RETURN reply;
END $$;
