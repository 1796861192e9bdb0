-- Takes for a list of groups, each settled as a whole and one after another, in one call and one transaction.
-- keys        every bucket's key, once
-- injected_us time in microseconds, or 0 for the server's own
-- limits      per limit: algorithm (4: a counter), amount, burst, window in seconds, most debt
-- groups      per group: takes, latest time at which it may still pay (0: any), the sum of 1 if a quota descriptor without
--             a limit has room, 2 if there are counters, 4 if a call that is over charges only the counters that are;
--             and per take: key, limit, descriptor, kind, mode, cost, and for mode 6 the time of payment
--             Keys and limits are given by their place, counted from 1. A take of mode 6 gives back what was paid, one of
--             mode 4 charges a counter, one of mode 5 stands for a counter that is known to be over.
-- locks       true: reads lock their rows, which is exact under READ COMMITTED; false: leaves that to SERIALIZABLE
-- waits       true: waits for rows that others hold, up to lock_timeout, which fails the whole call; false: passes them over
-- reply       time, damaged buckets, then per group its verdict (1 allowed, 2 refused, 3 too late, 5 passed over), after 5
--             followed by the key that somebody else holds and by the holder's transaction, after 1 and 2
--             per take by: outcome (plus 4 if paid), remaining, wait and reset in microseconds, time of payment
--             (of a charge: the count), capped hits
-- state       as each algorithm's file says; a row with nonsense in it counts as none and is overwritten
-- A refusal writes nothing, but keeps a bucket longer whose rate was lowered since it was written. Time is read after the rows are locked, so it never runs back for a bucket.
CREATE OR REPLACE FUNCTION take_all_v3(
  keys text[], injected_us bigint, limits bigint[], groups bigint[], locks boolean, waits boolean
)
RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  room CONSTANT bigint := 1;
  fields CONSTANT int := 7;
  lifetime_max_us CONSTANT bigint := 315360000000000;
  exact_max CONSTANT bigint := 9007199254740991;
  zeros CONSTANT bigint[] := array_fill(0::bigint, ARRAY[cardinality(keys)]);
  now_us bigint := injected_us;
  damaged bigint := 0;
  -- By the place of the key: what is saved, what the current group made of it, what it was when the group opened it.
  is_kept boolean[] := array_fill(false, ARRAY[cardinality(keys)]);
  saved_at bigint[] := zeros; saved_used bigint[] := zeros; saved_previous bigint[] := zeros;
  at_us bigint[] := zeros; used bigint[] := zeros; previous bigint[] := zeros; entries bigint[] := zeros;
  opened_used bigint[] := zeros; opened_previous bigint[] := zeros; redated bigint[] := zeros;
  lifetime_us bigint[] := zeros; expires_us bigint[] := zeros; kept_until bigint[] := zeros;
  opened_by bigint[] := zeros; -- the group that opened it last, by where that begins
  opened_for bigint[] := zeros; -- the limit it was last opened for, by its place
  has_changes boolean := false;
  found int := 0; -- rows that were read
  holder bigint[]; -- by the place of the key, of rows that were passed over
  held int;
  -- Of the group, by the take's place in it.
  outcome bigint[]; wait bigint[]; paid_us bigint[]; capped bigint[]; counted bigint[];
  has_over boolean; is_denied boolean;
  is_refused boolean; is_over boolean; has_quota boolean; has_quota_room boolean;
  saved record;
  r bigint[];
  reply bigint[] := ARRAY[0, 0]::bigint[];
  o int := 2; -- numbers in the reply
  g int := 1; -- where the group begins, its first take, the next group
  first int; next_g int;
  p int; i int; undo_from int; pass int;
  k int; l int; o_l int;
  mode bigint; cost bigint; descriptor bigint; kind bigint;
BEGIN
  FOR saved IN SELECT * FROM read_buckets_v2(keys, locks, waits) LOOP
    k := saved.place; found := found + 1;
    is_kept[k] := true; kept_until[k] := saved.expires_us; saved_at[k] := saved.at_us; saved_used[k] := saved.used; saved_previous[k] := saved.previous;
  END LOOP;
  IF locks AND NOT waits AND found < cardinality(keys) THEN
    FOR saved IN SELECT * FROM held_buckets(keys, is_kept) LOOP holder[saved.place] := saved.holder; END LOOP;
  END IF;
  IF now_us = 0 THEN now_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint; END IF;

  WHILE g <= cardinality(groups) LOOP
    first := g + 3;
    next_g := first + groups[g]::int * fields;
    IF groups[g + 1] > 0 AND now_us > groups[g + 1] THEN
      o := o + 1; reply[o] := 3; g := next_g;
      CONTINUE;
    END IF;
    IF holder IS NOT NULL THEN
      held := 0;
      FOR t IN first .. next_g - 1 BY fields LOOP
        IF holder[groups[t]] IS NOT NULL THEN held := groups[t]; END IF;
      END LOOP;
      IF held > 0 THEN
        reply[o + 1] := 5; reply[o + 2] := held; reply[o + 3] := holder[held];
        o := o + 3; g := next_g;
        CONTINUE;
      END IF;
    END IF;
    outcome := NULL; wait := NULL; paid_us := NULL; capped := NULL; counted := NULL;
    is_refused := false; has_quota := false; has_quota_room := groups[g + 2] % 2 = 1;
    -- A call that stops at over charges only the counters that would be, and none if one of them is denied already.
    has_over := false; is_denied := false;
    IF groups[g + 2] >= 4 THEN
      FOR t IN first .. next_g - 1 BY fields LOOP
        is_denied := is_denied OR groups[t + 4] = 5;
        has_over := has_over OR (groups[t + 4] = 4
          AND groups[t + 5] > limits[groups[t + 1] * 5 - 3] - greatest(0, saved_used[groups[t]]));
      END LOOP;
    END IF;

    -- Tries all takes, descriptor by descriptor, on what those before left.
    p := first; i := 1;
    WHILE p < next_g LOOP
      descriptor := groups[p + 2]; kind := groups[p + 3]; is_over := false; undo_from := i;
      WHILE p < next_g AND groups[p + 2] = descriptor LOOP
        k := groups[p]; l := (groups[p + 1] - 1) * 5; mode := groups[p + 4]; cost := groups[p + 5];
        IF opened_by[k] <> g THEN
          r := step_v2(limits[l + 1], 'open', keys[k], saved_at[k], saved_used[k], saved_previous[k], 0,
            limits[l + 2], limits[l + 3], limits[l + 4], limits[l + 5], 0, 0, now_us);
          IF r IS NULL THEN
            damaged := damaged + 1; has_changes := true;
            saved_at[k] := 0; saved_used[k] := 0; saved_previous[k] := 0; expires_us[k] := now_us;
            r := step_v2(limits[l + 1], 'open', keys[k], 0, 0, 0, 0,
              limits[l + 2], limits[l + 3], limits[l + 4], limits[l + 5], 0, 0, now_us);
          END IF;
          at_us[k] := r[1]; used[k] := r[2]; previous[k] := r[3]; redated[k] := r[4]; entries[k] := r[5];
          opened_used[k] := r[2]; opened_previous[k] := r[3]; lifetime_us[k] := 0; opened_by[k] := g;
          opened_for[k] := groups[p + 1];
        ELSIF opened_for[k] <> groups[p + 1] AND limits[l + 1] = 0 THEN
          -- Another limit goes on with it: a rule and an override of it in one call.
          o_l := (opened_for[k]::int - 1) * 5;
          r := step_v2(0, 'hand_over', keys[k], at_us[k], used[k], 0, 0,
            limits[o_l + 2], limits[o_l + 3], limits[o_l + 4], limits[o_l + 5], 0, 0, now_us);
          at_us[k] := r[1]; opened_used[k] := opened_used[k] + r[2] - used[k]; used[k] := r[2];
          opened_for[k] := groups[p + 1];
        END IF;
        outcome[i] := room; wait[i] := 0; paid_us[i] := 0; capped[i] := 0;
        IF mode = 0 OR mode = 1 THEN
          r := step_v2(limits[l + 1], 'judge', keys[k], at_us[k], used[k], previous[k], entries[k],
            limits[l + 2], limits[l + 3], limits[l + 4], limits[l + 5], cost, 0, now_us);
          outcome[i] := r[1]; wait[i] := r[2];
          is_over := is_over OR r[1] <> room;
        END IF;
        IF mode = 4 THEN
          IF is_denied OR (has_over AND cost <= limits[l + 2] - opened_used[k]) THEN
            cost := 0;
          ELSE
            paid_us[i] := now_us;
          END IF;
          r := step_v2(limits[l + 1], 'charge', keys[k], 0, used[k], 0, 0, 0, 0, 0, 0, cost, 0, now_us);
          used[k] := r[2]; counted[i] := r[2];
        ELSIF mode = 5 THEN
          counted[i] := limits[l + 2] + 1;
        END IF;
        IF counted[i] > limits[l + 2] THEN
          outcome[i] := 2; is_over := true;
        END IF;
        IF mode = 3 OR (mode = 0 AND outcome[i] = room) THEN
          paid_us[i] := greatest(now_us, at_us[k]);
          r := step_v2(limits[l + 1], CASE mode WHEN 0 THEN 'pay' ELSE 'post_pay' END, keys[k], at_us[k], used[k],
            previous[k], entries[k], limits[l + 2], limits[l + 3], limits[l + 4], limits[l + 5], cost, 0, now_us);
          used[k] := r[2]; previous[k] := r[3];
          IF mode = 3 THEN capped[i] := r[4]; END IF;
        END IF;
        p := p + fields; i := i + 1;
      END LOOP;
      IF kind = 0 THEN is_refused := is_refused OR is_over; END IF;
      IF kind = 1 THEN
        has_quota := true; has_quota_room := has_quota_room OR NOT is_over;
      END IF;
      -- A descriptor that is over pays nothing, and after the last one a group that is refused.
      FOR pass IN 1 .. 2 LOOP
        IF pass = 2 THEN
          EXIT WHEN p < next_g;
          is_refused := is_refused OR (has_quota AND NOT has_quota_room);
          is_over := is_refused; undo_from := 1;
        END IF;
        CONTINUE WHEN NOT is_over;
        FOR t IN undo_from .. i - 1 LOOP
          l := first + (t - 1) * fields;
          CONTINUE WHEN paid_us[t] = 0 OR groups[l + 4] <> 0;
          k := groups[l]; cost := -groups[l + 5]; l := (groups[l + 1] - 1) * 5; paid_us[t] := 0;
          r := step_v2(limits[l + 1], 'pay', keys[k], at_us[k], used[k], previous[k], entries[k],
            limits[l + 2], limits[l + 3], limits[l + 4], limits[l + 5], cost, 0, now_us);
          used[k] := r[2]; previous[k] := r[3];
        END LOOP;
      END LOOP;
    END LOOP;

    -- Refunds, last of all, so that no take of the same call passes because of them; and what is given back.
    p := first;
    FOR t IN 1 .. groups[g] LOOP
      k := groups[p]; l := (groups[p + 1] - 1) * 5; mode := groups[p + 4];
      IF mode = 2 OR mode = 6 THEN
        IF mode = 2 THEN paid_us[t] := greatest(now_us, at_us[k]); END IF;
        r := step_v2(limits[l + 1], CASE mode WHEN 2 THEN 'refund' ELSE 'give_back' END, keys[k], at_us[k], used[k],
          previous[k], entries[k], limits[l + 2], limits[l + 3], limits[l + 4], limits[l + 5], groups[p + 5],
          groups[p + 6], now_us);
        at_us[k] := r[1]; used[k] := r[2]; previous[k] := r[3]; entries[k] := r[5];
      END IF;
      p := p + fields;
    END LOOP;

    -- Answers by how the buckets stand now.
    o := o + 1; reply[o] := CASE WHEN is_refused THEN 2 ELSE 1 END;
    p := first;
    FOR t IN 1 .. groups[g] LOOP
      k := groups[p]; l := (groups[p + 1] - 1) * 5;
      r := step_v2(limits[l + 1], 'report', keys[k], at_us[k], used[k], previous[k], entries[k],
        limits[l + 2], limits[l + 3], limits[l + 4], limits[l + 5], 0, 0, now_us);
      lifetime_us[k] := greatest(lifetime_us[k], least(r[2], lifetime_max_us));
      reply[o + 1] := outcome[t] + CASE WHEN paid_us[t] > 0 THEN 4 ELSE 0 END;
      reply[o + 2] := r[1]; reply[o + 3] := wait[t]; reply[o + 4] := r[2];
      reply[o + 5] := paid_us[t]; reply[o + 6] := capped[t];
      IF limits[l + 1] = 4 THEN
        lifetime_us[k] := limits[l + 4] * 1000000;
        -- What is left after the charge itself, whatever came after it.
        IF counted[t] IS NOT NULL THEN
          reply[o + 2] := greatest(0, limits[l + 2] - counted[t]); reply[o + 5] := least(counted[t], exact_max);
        END IF;
      END IF;
      o := o + 6; p := p + fields;
    END LOOP;

    -- What changed is what the next group finds saved.
    p := first;
    FOR t IN 1 .. groups[g] LOOP
      k := groups[p]; l := (groups[p + 1] - 1) * 5; p := p + fields;
      CONTINUE WHEN opened_by[k] = 0;
      opened_by[k] := 0;
      IF limits[l + 1] = 3 THEN
        CONTINUE WHEN redated[k] = 0 AND used[k] + previous[k] = opened_used[k];
        r := step_v2(limits[l + 1], 'save', keys[k], at_us[k], used[k], previous[k], entries[k],
          limits[l + 2], limits[l + 3], limits[l + 4], limits[l + 5], 0, 0, now_us);
      ELSE
        IF redated[k] = 0 AND used[k] = opened_used[k] AND previous[k] = opened_previous[k] THEN
          -- The row's lifetime is that of the rate it was written by; a lower one needs longer.
          IF limits[l + 1] = 0 AND used[k] > 0 AND greatest(kept_until[k], expires_us[k]) < now_us + lifetime_us[k] THEN
            expires_us[k] := now_us + lifetime_us[k]; has_changes := true;
          END IF;
          CONTINUE;
        END IF;
        r := CASE WHEN used[k] = 0 AND previous[k] = 0 THEN ARRAY[0, 0, 0]::bigint[]
          ELSE ARRAY[at_us[k], used[k], previous[k]] END;
      END IF;
      saved_at[k] := r[1]; saved_used[k] := r[2]; saved_previous[k] := r[3]; has_changes := true;
      -- What is as new means nothing from now on.
      expires_us[k] := now_us + CASE WHEN r[2] = 0 AND r[3] = 0 THEN 0
        ELSE greatest(lifetime_us[k], 1000) END;
    END LOOP;
    g := next_g;
  END LOOP;

  IF has_changes THEN PERFORM write_buckets_v2(keys, is_kept, saved_at, saved_used, saved_previous, expires_us); END IF;
  reply[1] := now_us; reply[2] := damaged;
  RETURN reply;
END $$;
