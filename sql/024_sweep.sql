-- Drops buckets that mean nothing any more and the entries of their logs, up to `rows_max` of each and what more the last
-- log holds; returns how many rows went. Buckets that a call holds are left for another time, so nobody waits. injected_us
-- as in take_all.
CREATE OR REPLACE FUNCTION sweep_v2(injected_us bigint, rows_max bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now_us bigint := injected_us;
  dead text[];
  log text;
  entries bigint := 0;
  dropped bigint;
BEGIN
  IF now_us = 0 THEN now_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint; END IF;
  SELECT array_agg(d.bucket_key) INTO dead FROM (
    SELECT b.bucket_key FROM bucket b WHERE b.expires_us <= now_us
    ORDER BY b.expires_us LIMIT rows_max FOR UPDATE SKIP LOCKED
  ) d;
  IF dead IS NULL THEN RETURN 0; END IF;
  FOR log IN
    SELECT d FROM unnest(dead) d WHERE EXISTS (SELECT FROM log_entry e WHERE e.bucket_key = d COLLATE "C")
  LOOP
    EXIT WHEN entries >= rows_max;
    DELETE FROM log_entry e WHERE e.bucket_key = log COLLATE "C";
    GET DIAGNOSTICS dropped = ROW_COUNT;
    entries := entries + dropped;
  END LOOP;
  DELETE FROM bucket b WHERE b.bucket_key = ANY (dead)
    AND NOT EXISTS (SELECT FROM log_entry e WHERE e.bucket_key = b.bucket_key);
  GET DIAGNOSTICS dropped = ROW_COUNT;
  RETURN dropped + entries;
END $$;
