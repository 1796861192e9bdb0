-- Deletes expired buckets, the entries of their logs and their holds, which have all ended; and settled holds that are
-- forgotten. Up to `rows_max` of each; all entries and holds of the last bucket go. Returns the number of deleted rows. Skips
-- rows that a call has locked, so nobody waits. injected_us as in take_all.
CREATE OR REPLACE FUNCTION sweep_v3(injected_us bigint, rows_max bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now_us bigint := injected_us;
  dead text[];
  dead_key text;
  dropped bigint;
  entries bigint := 0;
  holds bigint := 0;
  buckets bigint := 0;
  forgotten bigint;
BEGIN
  IF now_us = 0 THEN now_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint; END IF;
  WITH gone AS (
    SELECT s.bucket_key, s.hold_id FROM settled_hold s WHERE s.until_us <= now_us
    ORDER BY s.until_us LIMIT rows_max FOR UPDATE SKIP LOCKED
  )
  DELETE FROM settled_hold s USING gone WHERE s.bucket_key = gone.bucket_key AND s.hold_id = gone.hold_id;
  GET DIAGNOSTICS forgotten = ROW_COUNT;
  SELECT array_agg(d.bucket_key) INTO dead FROM (
    SELECT b.bucket_key FROM bucket b WHERE b.expires_us <= now_us
    ORDER BY b.expires_us LIMIT rows_max FOR UPDATE SKIP LOCKED
  ) d;
  IF dead IS NULL THEN RETURN forgotten; END IF;
  FOR dead_key IN
    SELECT d FROM unnest(dead) d WHERE EXISTS (SELECT FROM log_entry e WHERE e.bucket_key = d COLLATE "C")
  LOOP
    EXIT WHEN entries >= rows_max;
    DELETE FROM log_entry e WHERE e.bucket_key = dead_key COLLATE "C";
    GET DIAGNOSTICS dropped = ROW_COUNT;
    entries := entries + dropped;
  END LOOP;
  FOR dead_key IN
    SELECT d FROM unnest(dead) d WHERE EXISTS (SELECT FROM hold h WHERE h.bucket_key = d COLLATE "C")
  LOOP
    EXIT WHEN holds >= rows_max;
    DELETE FROM hold h WHERE h.bucket_key = dead_key COLLATE "C";
    GET DIAGNOSTICS dropped = ROW_COUNT;
    DELETE FROM hold_book b WHERE b.bucket_key = dead_key COLLATE "C";
    holds := holds + dropped;
  END LOOP;
  DELETE FROM bucket b WHERE b.bucket_key = ANY (dead)
    AND NOT EXISTS (SELECT FROM log_entry e WHERE e.bucket_key = b.bucket_key)
    AND NOT EXISTS (SELECT FROM hold h WHERE h.bucket_key = b.bucket_key);
  GET DIAGNOSTICS buckets = ROW_COUNT;
  RETURN forgotten + entries + holds + buckets;
END $$;
