-- Picks the function of an algorithm: 0 token bucket, 1 sliding window, 2 fixed window, 3 sliding log, 4 counter, 5 calendar
-- window. The limit's numbers follow the place `limit_at` in `limits`: algorithm, amount, burst, tick, most debt. A calendar
-- window has its edges in place of the last three. In plain SQL, so that calls are inlined.
CREATE OR REPLACE FUNCTION step_v3(
  op text, limits bigint[], limit_at int, key text, at_us bigint, used bigint, previous bigint, entries bigint,
  cost bigint, paid_us bigint, now_us bigint
) RETURNS bigint[] LANGUAGE sql VOLATILE AS $$
  SELECT CASE limits[limit_at + 1]
    WHEN 0 THEN token_bucket_v2(op, at_us, used, previous,
      limits[limit_at + 2], limits[limit_at + 3], limits[limit_at + 4], limits[limit_at + 5], cost, paid_us, now_us)
    WHEN 1 THEN sliding_window_v2(op, at_us, used, previous,
      limits[limit_at + 2], limits[limit_at + 3], limits[limit_at + 4], limits[limit_at + 5], cost, paid_us, now_us)
    WHEN 2 THEN fixed_window_v2(op, at_us, used, previous,
      limits[limit_at + 2], limits[limit_at + 3], limits[limit_at + 4], limits[limit_at + 5], cost, paid_us, now_us)
    WHEN 3 THEN sliding_log_v2(op, key, at_us, used, previous,
      limits[limit_at + 2], limits[limit_at + 4], cost, paid_us, now_us, entries)
    WHEN 5 THEN calendar_window_v1(op, at_us, used, previous,
      limits[limit_at + 2], limits[limit_at + 3], limits[limit_at + 4], limits[limit_at + 5], cost, paid_us, now_us)
    ELSE counter(op, at_us, used, limits[limit_at + 2], cost)
  END
$$;
