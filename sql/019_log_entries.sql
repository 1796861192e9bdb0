-- Reads and writes the entries of a sliding log. `at_us` is the time at which the log is judged and paid; entries dated later,
-- after a large step back in time, count as dated then. Entries up to `since_us` no longer count.

-- The newest entry of a log.
CREATE OR REPLACE FUNCTION log_newest_v2(key text) RETURNS log_entry LANGUAGE sql STABLE AS $$
  SELECT * FROM log_entry WHERE bucket_key = key COLLATE "C" ORDER BY at_us DESC, entry DESC LIMIT 1
$$;

-- The state from the saved numbers: newest time, costs, entries. Null if the entries contradict them.
CREATE OR REPLACE FUNCTION log_open_v2(
  key text, newest_us bigint, total bigint, entries bigint, now_us bigint, window_us bigint, skew_us bigint
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  is_redated boolean := newest_us > now_us + skew_us;
  effective_us bigint := CASE WHEN newest_us > now_us + skew_us THEN now_us ELSE greatest(now_us, newest_us) END;
  gone_cost bigint;
  gone bigint;
BEGIN
  SELECT coalesce(sum(e.cost), 0), count(*) INTO gone_cost, gone
  FROM log_entry e WHERE e.bucket_key = key COLLATE "C" AND e.at_us <= effective_us - window_us;
  total := total - gone_cost;
  entries := entries - gone;
  IF total < 0 OR entries < 0 OR (entries = 0) <> (total = 0) THEN RETURN NULL; END IF;
  IF entries > 0 AND newest_us <= effective_us - window_us THEN RETURN NULL; END IF;
  RETURN ARRAY[effective_us, total, 0, is_redated::int, entries];
END $$;

-- Whether two times are of one granule of the window, of which it has 128.
CREATE OR REPLACE FUNCTION is_one_granule(one_us bigint, other_us bigint, window_us bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT one_us / ((window_us + 127) / 128) = other_us / ((window_us + 127) / 128)
$$;

-- Whether a pending payment joins the newest entry: it has the same time, or with many entries the same granule.
CREATE OR REPLACE FUNCTION log_merges_v2(key text, at_us bigint, pending bigint, window_us bigint, entries bigint)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
  newest_us bigint;
BEGIN
  IF pending = 0 OR entries = 0 THEN RETURN false; END IF;
  newest_us := (log_newest_v2(key)).at_us;
  RETURN newest_us >= at_us OR (entries >= 128 AND is_one_granule(newest_us, at_us, window_us));
END $$;

-- Time of the payment whose end frees `excess`, counted from the oldest.
CREATE OR REPLACE FUNCTION log_time_that_frees_v2(
  key text, at_us bigint, excess bigint, window_us bigint, pending bigint, entries bigint
) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
  frees log_entry;
  freed bigint := 0;
BEGIN
  FOR frees IN
    SELECT * FROM log_entry e
    WHERE e.bucket_key = key COLLATE "C" AND e.at_us > log_time_that_frees_v2.at_us - window_us ORDER BY e.at_us, e.entry
  LOOP
    freed := freed + frees.cost;
    IF freed >= excess THEN
      IF frees.entry = (log_newest_v2(key)).entry AND log_merges_v2(key, at_us, pending, window_us, entries) THEN RETURN at_us; END IF;
      RETURN least(frees.at_us, at_us);
    END IF;
  END LOOP;
  RETURN at_us;
END $$;

-- Takes up to `cost` off the pending payment, then off the newest entries.
CREATE OR REPLACE FUNCTION log_refund_v2(
  key text, at_us bigint, used bigint, pending bigint, window_us bigint, cost bigint, entries bigint
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  left_over bigint := cost - least(pending, cost);
  newest log_entry;
BEGIN
  pending := pending - least(pending, cost);
  WHILE left_over > 0 AND entries > 0 LOOP
    newest := log_newest_v2(key);
    IF newest.cost > left_over THEN
      UPDATE log_entry e SET cost = e.cost - left_over
      WHERE e.bucket_key = newest.bucket_key AND e.at_us = newest.at_us AND e.entry = newest.entry;
      used := used - left_over;
      left_over := 0;
    ELSE
      DELETE FROM log_entry e
      WHERE e.bucket_key = newest.bucket_key AND e.at_us = newest.at_us AND e.entry = newest.entry;
      used := used - newest.cost;
      entries := entries - 1;
      left_over := left_over - newest.cost;
    END IF;
  END LOOP;
  RETURN ARRAY[at_us, used, pending, 0, entries];
END $$;

-- Takes up to `cost` off the newest entry of that time, if there is one, else off the next one of its granule, which a
-- payment of that time may share with later ones.
CREATE OR REPLACE FUNCTION log_give_back_v2(
  key text, at_us bigint, used bigint, pending bigint, window_us bigint, cost bigint, paid_us bigint, entries bigint
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  found_entry log_entry;
BEGIN
  SELECT * INTO found_entry FROM log_entry e
  WHERE e.bucket_key = key COLLATE "C" AND e.at_us >= paid_us AND (e.at_us = paid_us OR paid_us = log_give_back_v2.at_us)
    AND e.at_us > log_give_back_v2.at_us - window_us
  ORDER BY e.at_us DESC, e.entry DESC LIMIT 1;
  IF NOT FOUND THEN
    SELECT * INTO found_entry FROM log_entry e
    WHERE e.bucket_key = key COLLATE "C" AND e.at_us > paid_us AND e.at_us > log_give_back_v2.at_us - window_us
    ORDER BY e.at_us, e.entry LIMIT 1;
  END IF;
  IF NOT FOUND OR NOT is_one_granule(least(found_entry.at_us, log_give_back_v2.at_us), paid_us, window_us) THEN RETURN ARRAY[at_us, used, pending, 0, entries]; END IF;
  IF found_entry.cost > cost THEN
    UPDATE log_entry e SET cost = e.cost - log_give_back_v2.cost
    WHERE e.bucket_key = found_entry.bucket_key AND e.at_us = found_entry.at_us AND e.entry = found_entry.entry;
    RETURN ARRAY[at_us, used - cost, pending, 0, entries];
  END IF;
  DELETE FROM log_entry e
  WHERE e.bucket_key = found_entry.bucket_key AND e.at_us = found_entry.at_us AND e.entry = found_entry.entry;
  RETURN ARRAY[at_us, used - found_entry.cost, pending, 0, entries - 1];
END $$;

-- Writes what a call did to the entries: deletes old ones, dates late ones `at_us`, adds the pending payment. Answers the
-- newest time, the costs and the number of the remaining entries, as the row in `bucket` keeps them.
CREATE OR REPLACE FUNCTION log_save_v2(
  key text, at_us bigint, used bigint, pending bigint, window_us bigint, entries bigint
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  newest log_entry;
BEGIN
  -- If no entry counts, none may be left, not even of a damaged log.
  DELETE FROM log_entry e
  WHERE e.bucket_key = key COLLATE "C" AND (e.at_us <= log_save_v2.at_us - window_us OR log_save_v2.entries = 0);
  UPDATE log_entry e SET at_us = log_save_v2.at_us WHERE e.bucket_key = key COLLATE "C" AND e.at_us > log_save_v2.at_us;
  newest := log_newest_v2(key);
  IF log_merges_v2(key, at_us, pending, window_us, entries) THEN
    UPDATE log_entry e SET at_us = log_save_v2.at_us, cost = e.cost + pending
    WHERE e.bucket_key = newest.bucket_key AND e.at_us = newest.at_us AND e.entry = newest.entry;
  ELSIF pending > 0 THEN
    INSERT INTO log_entry VALUES (key, at_us, coalesce(newest.entry, 0) + 1, pending);
    entries := entries + 1;
  END IF;
  IF entries = 0 THEN RETURN ARRAY[0, 0, 0]; END IF;
  RETURN ARRAY[CASE WHEN pending > 0 THEN at_us ELSE newest.at_us END, used + pending, entries];
END $$;
