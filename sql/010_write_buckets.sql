-- Writes the buckets whose expiry is given. `is_kept` tells which had a row when they were read. Fails with 40001, which
-- the caller answers by running everything again, if another call has made a row since.
CREATE OR REPLACE FUNCTION write_buckets(
  keys text[], is_kept boolean[], at_us bigint[], used bigint[], previous bigint[], expires_us bigint[]
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- Coarse, so that few updates touch the index on it.
  grain_us CONSTANT bigint := 16777216;
  made bigint := 0;
  written bigint;
  has_kept boolean := false;
BEGIN
  FOR i IN 1 .. cardinality(keys) LOOP
    IF expires_us[i] > 0 THEN
      expires_us[i] := (expires_us[i] / grain_us + 1) * grain_us;
      IF is_kept[i] THEN has_kept := true; ELSE made := made + 1; END IF;
    END IF;
  END LOOP;
  IF has_kept THEN
    UPDATE bucket b SET at_us = d.at_us, used = d.used, previous = d.previous, expires_us = d.expires_us
    FROM unnest(keys, is_kept, write_buckets.at_us, write_buckets.used, write_buckets.previous, write_buckets.expires_us)
      d (bucket_key, is_kept, at_us, used, previous, expires_us)
    WHERE d.is_kept AND d.expires_us > 0 AND b.bucket_key = d.bucket_key COLLATE "C";
  END IF;
  IF made > 0 THEN
    INSERT INTO bucket
    SELECT d.bucket_key, d.at_us, d.used, d.previous, d.expires_us
    FROM unnest(keys, is_kept, write_buckets.at_us, write_buckets.used, write_buckets.previous, write_buckets.expires_us)
      d (bucket_key, is_kept, at_us, used, previous, expires_us)
    WHERE NOT d.is_kept AND d.expires_us > 0 ORDER BY d.bucket_key COLLATE "C"
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written < made THEN
      RAISE EXCEPTION 'another call made a bucket at the same time' USING ERRCODE = 'serialization_failure';
    END IF;
  END IF;
END $$;
