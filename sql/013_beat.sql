-- Reports a process as alive and returns how many are, itself included; forgets those that were silent for too long.
-- Null in place of the process only forgets and counts.
CREATE OR REPLACE FUNCTION beat(own_id text, gone_after interval) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF own_id IS NOT NULL THEN
    INSERT INTO process VALUES (own_id, clock_timestamp())
    ON CONFLICT (process_id) DO UPDATE SET seen_at = clock_timestamp();
  END IF;
  DELETE FROM process WHERE process_id IN (
    SELECT process_id FROM process WHERE seen_at < clock_timestamp() - gone_after FOR UPDATE SKIP LOCKED
  );
  RETURN (SELECT count(*) FROM process);
END $$;
