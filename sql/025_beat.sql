-- Reports a process as alive. Answers how many are alive, its own place among them in the order of their names, from 0 on, and
-- 1 if it was not in the table before. Deletes processes that were silent for too long.
CREATE OR REPLACE FUNCTION beat_v2(own_id text, gone_after interval) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  was_there boolean;
BEGIN
  UPDATE process SET seen_at = clock_timestamp() WHERE process_id = own_id;
  was_there := FOUND;
  IF NOT was_there THEN INSERT INTO process VALUES (own_id, clock_timestamp()); END IF;
  DELETE FROM process WHERE process_id IN (
    SELECT process_id FROM process WHERE seen_at < clock_timestamp() - gone_after FOR UPDATE SKIP LOCKED
  );
  RETURN (
    SELECT ARRAY[count(*), count(*) FILTER (WHERE process_id < own_id COLLATE "C"), (NOT was_there)::int] FROM process
  );
END $$;
