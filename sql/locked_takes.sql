-- Everything but plain takes is settled in TypeScript (src/stores/postgres/locked-takes.ts), in a transaction that begins with
-- lock_buckets and ends with write_buckets.

-- Locks the rows of these keys, each named once, in the order of the keys, so that calls never deadlock, until the transaction ends.
-- waits     true: waits for locked rows, up to wait_ms, and then fails with 55P03; false: passes them over
-- reply     each locked row under its key's place, counted from 1; last, under place 0, the time after the locks, in at_us. If rows
--           were missing, all rows that exist come again under the negative place, with the transaction that holds or last held them in
--           at_us: a place that has only such a row was passed over, a place without any has no row.
CREATE OR REPLACE FUNCTION lock_buckets(keys text[], waits boolean, wait_ms bigint)
RETURNS TABLE (place bigint, at_us bigint, used bigint, previous bigint, expires_us bigint, packed text)
LANGUAGE plpgsql VOLATILE ROWS 10 AS $$
#variable_conflict use_column
DECLARE
  locked int;
BEGIN
  PERFORM set_config('lock_timeout', wait_ms::text, true);
  IF waits THEN
    RETURN QUERY SELECT k.place, b.at_us, b.used, b.previous, b.expires_us, b.packed
    FROM (
      SELECT u.bucket_key COLLATE "C", u.place FROM unnest(keys) WITH ORDINALITY u (bucket_key, place) ORDER BY 1
    ) k (bucket_key, place) JOIN bucket b ON b.bucket_key = k.bucket_key
    ORDER BY b.bucket_key FOR UPDATE OF b;
  ELSE
    RETURN QUERY SELECT k.place, b.at_us, b.used, b.previous, b.expires_us, b.packed
    FROM (
      SELECT u.bucket_key COLLATE "C", u.place FROM unnest(keys) WITH ORDINALITY u (bucket_key, place) ORDER BY 1
    ) k (bucket_key, place) JOIN bucket b ON b.bucket_key = k.bucket_key
    ORDER BY b.bucket_key FOR UPDATE OF b SKIP LOCKED;
    GET DIAGNOSTICS locked = ROW_COUNT;
    IF locked < cardinality(keys) THEN
      RETURN QUERY SELECT -k.place, b.xmax::text::bigint, 0::bigint, 0::bigint, 0::bigint, NULL
      FROM unnest(keys) WITH ORDINALITY k (bucket_key, place) JOIN bucket b ON b.bucket_key = k.bucket_key COLLATE "C";
    END IF;
  END IF;
  -- Read after the wait, so time never runs back for a bucket.
  place := 0; at_us := extract(epoch FROM clock_timestamp()) * 1000000;
  RETURN NEXT;
END $$;

-- Writes buckets: first the `kept` ones that had a row when they were read, then new ones, in the order of their keys.
-- latest_us  when the last of the takes is too late, or 0. Fails with 40001 then: nobody waits for them any more.
-- Fails with 40001, too, if another call has made a row since. Fails with 55P03 and the key as its detail if somebody has made a row
-- and does not commit for half of lock_timeout, so that calls that wait for rows of this call are still in time.
CREATE OR REPLACE FUNCTION write_buckets(
  keys text[], at_us bigint[], used bigint[], previous bigint[], expires_us bigint[], packed text[], kept int, latest_us bigint
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  wait_ms int;
  i int;
BEGIN
  IF latest_us > 0 AND extract(epoch FROM clock_timestamp()) * 1000000 > latest_us THEN
    RAISE EXCEPTION 'takes became too late while they were settled' USING ERRCODE = 'serialization_failure';
  END IF;
  IF kept > 0 THEN
    UPDATE bucket b SET at_us = n.at_us, used = n.used, previous = n.previous, packed = n.packed,
      expires_us = expiry(b.expires_us, n.expires_us)
    FROM unnest($1, $2, $3, $4, $5, $6) -- the arguments, which have the names of columns
      WITH ORDINALITY n (bucket_key, at_us, used, previous, expires_us, packed, place)
    WHERE n.place <= kept AND b.bucket_key = n.bucket_key COLLATE "C";
  END IF;
  IF kept = cardinality(keys) THEN RETURN; END IF;
  wait_ms := extract(epoch FROM current_setting('lock_timeout')::interval) * 1000;
  IF wait_ms > 1 THEN PERFORM set_config('lock_timeout', (wait_ms / 2)::text, true); END IF;
  BEGIN
    FOR i IN SELECT * FROM generate_series(kept + 1, cardinality(keys)) LOOP
      INSERT INTO bucket
      VALUES (keys[i], at_us[i], used[i], previous[i], first_expiry(expires_us[i], 0), packed[i]) ON CONFLICT DO NOTHING;
      IF NOT FOUND THEN
        RAISE EXCEPTION 'another call made a bucket at the same time' USING ERRCODE = 'serialization_failure';
      END IF;
    END LOOP;
  EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'somebody makes a bucket and does not commit' USING ERRCODE = 'lock_not_available', DETAIL = keys[i];
  END;
END $$;
