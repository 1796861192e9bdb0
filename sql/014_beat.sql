-- Reports a process as alive; answers how many are, itself included, and its place among them in the order of their
-- names, from 0 on. Forgets those that were silent for too long.
CREATE OR REPLACE FUNCTION beat(own_id text, gone_after interval) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO process VALUES (own_id, clock_timestamp())
  ON CONFLICT (process_id) DO UPDATE SET seen_at = clock_timestamp();
  DELETE FROM process WHERE process_id IN (
    SELECT process_id FROM process WHERE seen_at < clock_timestamp() - gone_after FOR UPDATE SKIP LOCKED
  );
  RETURN (SELECT ARRAY[count(*), count(*) FILTER (WHERE process_id < own_id COLLATE "C")] FROM process);
END $$;
