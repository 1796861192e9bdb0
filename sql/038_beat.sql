-- Reports a process as alive. Answers how many of the same prefix are alive, its own place among them in the order of their names, from
-- 0 on, and 1 if it was not in the table before. Deletes processes that were silent for too long. A name is a prefix and a UUID.
CREATE OR REPLACE FUNCTION beat_v3(prefix text, uuid text, gone_after interval) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
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
    SELECT ARRAY[count(*), count(*) FILTER (WHERE process_id < own_id), (NOT was_there)::int]
    FROM process WHERE left(process_id, -36) = prefix
  );
END $$;
