-- What is done beside the takes.

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

-- Reports a process as alive. Answers how many of the same prefix are alive, and 1 if it was not in the table before. Deletes processes that
-- were silent for too long. A name is a prefix and a UUID.
CREATE OR REPLACE FUNCTION beat(prefix text, uuid text, gone_after interval) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  own_id text COLLATE "C" := prefix || uuid;
  was_there boolean;
BEGIN
  UPDATE process SET seen_at = clock_timestamp() WHERE process_id = own_id;
  was_there := FOUND;
  IF NOT was_there THEN INSERT INTO process VALUES (own_id, clock_timestamp()); END IF;
  DELETE FROM process WHERE process_id IN (
    SELECT process_id FROM process WHERE seen_at < clock_timestamp() - gone_after FOR UPDATE SKIP LOCKED
  );
  RETURN (
    SELECT ARRAY[count(*), (NOT was_there)::int] FROM process WHERE left(process_id, -36) = prefix
  );
END $$;
