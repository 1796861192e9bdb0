-- Housekeeping, apart from takes.

-- Deletes expired buckets, and settled holds that are forgotten: up to `rows_max` of each. Returns how many. Skips rows that a call
-- has locked, so nobody waits. injected_us: time in microseconds, or 0 for the server's own.
CREATE OR REPLACE FUNCTION sweep(injected_us bigint, rows_max bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now_us bigint := CASE injected_us WHEN 0 THEN extract(epoch FROM clock_timestamp()) * 1000000 ELSE injected_us END;
  forgotten bigint;
  dropped bigint;
BEGIN
  WITH gone AS (
    SELECT s.name FROM settled_hold s WHERE s.until_us <= now_us ORDER BY s.until_us LIMIT rows_max FOR UPDATE SKIP LOCKED
  )
  DELETE FROM settled_hold s USING gone WHERE s.name = gone.name;
  GET DIAGNOSTICS forgotten = ROW_COUNT;
  WITH dead AS (
    SELECT b.bucket_key FROM bucket b WHERE b.expires_us <= now_us ORDER BY b.expires_us LIMIT rows_max FOR UPDATE SKIP LOCKED
  )
  DELETE FROM bucket b USING dead WHERE b.bucket_key = dead.bucket_key;
  GET DIAGNOSTICS dropped = ROW_COUNT;
  RETURN forgotten + dropped;
END $$;
