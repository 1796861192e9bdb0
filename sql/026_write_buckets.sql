-- Writes the buckets whose expiry is not 0. `is_kept` tells which had a row when they were read.
-- Fails with 40001 if another call has inserted a row since: the caller runs all again. Fails with 55P03 and the place of the key
-- as its detail if somebody has inserted a row and does not commit for half of lock_timeout, so that calls that wait for rows of
-- this call are still in time.
CREATE OR REPLACE FUNCTION write_buckets_v2(
  keys text[], is_kept boolean[], at_us bigint[], used bigint[], previous bigint[], expires_us bigint[]
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- Coarse, so that few updates change the index on it.
  grain_us CONSTANT bigint := 16777216;
  made int := 0;
  wait_ms int;
  i int;
BEGIN
  FOR i IN 1 .. cardinality(keys) LOOP
    CONTINUE WHEN expires_us[i] = 0;
    IF is_kept[i] THEN
      UPDATE bucket b
      SET at_us = write_buckets_v2.at_us[i], used = write_buckets_v2.used[i], previous = write_buckets_v2.previous[i],
        expires_us = (write_buckets_v2.expires_us[i] / grain_us + 1) * grain_us
      WHERE b.bucket_key = keys[i] COLLATE "C";
    ELSE
      made := made + 1;
    END IF;
  END LOOP;
  IF made = 0 THEN RETURN; END IF;
  wait_ms := extract(epoch FROM current_setting('lock_timeout')::interval) * 1000;
  IF wait_ms > 1 THEN PERFORM set_config('lock_timeout', (wait_ms / 2)::text, true); END IF;
  -- In the order of their keys, so that calls never deadlock.
  BEGIN
    FOR i IN
      SELECT place FROM generate_subscripts(keys, 1) place
      WHERE NOT is_kept[place] AND write_buckets_v2.expires_us[place] > 0 ORDER BY keys[place] COLLATE "C"
    LOOP
      INSERT INTO bucket VALUES (keys[i], at_us[i], used[i], previous[i], (expires_us[i] / grain_us + 1) * grain_us)
      ON CONFLICT DO NOTHING;
      IF NOT FOUND THEN
        RAISE EXCEPTION 'another call made a bucket at the same time' USING ERRCODE = 'serialization_failure';
      END IF;
    END LOOP;
  EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'somebody makes a bucket and does not commit' USING ERRCODE = 'lock_not_available', DETAIL = i::text;
  END;
END $$;
