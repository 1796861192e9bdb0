-- The buckets of these keys, by the keys' places. Keys are ASCII: other bytes are written as \x and two hex digits, a backslash
-- twice. `locks` locks the rows until the transaction ends, in the order of their keys, so that calls never deadlock. Without
-- `waits` a row that somebody else has locked is passed over: held_buckets tells which.
CREATE OR REPLACE FUNCTION read_buckets_v2(keys text[], locks boolean, waits boolean)
RETURNS TABLE (place bigint, at_us bigint, used bigint, previous bigint, expires_us bigint) LANGUAGE plpgsql VOLATILE ROWS 10 AS $$
BEGIN
  IF locks AND waits THEN
    RETURN QUERY SELECT k.place, b.at_us, b.used, b.previous, b.expires_us
    FROM unnest(keys) WITH ORDINALITY k (bucket_key, place) JOIN bucket b ON b.bucket_key = k.bucket_key COLLATE "C"
    ORDER BY b.bucket_key FOR UPDATE OF b;
  ELSIF locks THEN
    RETURN QUERY SELECT k.place, b.at_us, b.used, b.previous, b.expires_us
    FROM unnest(keys) WITH ORDINALITY k (bucket_key, place) JOIN bucket b ON b.bucket_key = k.bucket_key COLLATE "C"
    ORDER BY b.bucket_key FOR UPDATE OF b SKIP LOCKED;
  ELSE
    RETURN QUERY SELECT k.place, b.at_us, b.used, b.previous, b.expires_us
    FROM unnest(keys) WITH ORDINALITY k (bucket_key, place) JOIN bucket b ON b.bucket_key = k.bucket_key COLLATE "C";
  END IF;
END $$;

-- Keys without `is_kept` that have a row, and the transaction that holds it, or last held it.
CREATE OR REPLACE FUNCTION held_buckets(keys text[], is_kept boolean[])
RETURNS TABLE (place bigint, holder bigint) LANGUAGE sql VOLATILE ROWS 10 AS $$
  SELECT k.place, b.xmax::text::bigint
  FROM unnest(keys) WITH ORDINALITY k (bucket_key, place) JOIN bucket b ON b.bucket_key = k.bucket_key COLLATE "C"
  WHERE NOT is_kept[k.place]
$$;
