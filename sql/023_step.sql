-- Picks the function of an algorithm: 0 token bucket, 1 sliding window, 2 fixed window, 3 sliding log, 4 counter, 5 calendar
-- window, which takes its edges in place of burst, tick and most debt. In plain SQL, so that calls are inlined.
CREATE OR REPLACE FUNCTION step_v2(
  algorithm bigint, op text, key text, at_us bigint, used bigint, previous bigint, entries bigint,
  amount bigint, burst bigint, tick_us bigint, debt_max bigint, cost bigint, paid_us bigint, now_us bigint
) RETURNS bigint[] LANGUAGE sql VOLATILE AS $$
  SELECT CASE algorithm
    WHEN 0 THEN token_bucket_v2(op, at_us, used, previous, amount, burst, tick_us, debt_max, cost, paid_us, now_us)
    WHEN 1 THEN sliding_window_v2(op, at_us, used, previous, amount, burst, tick_us, debt_max, cost, paid_us, now_us)
    WHEN 2 THEN fixed_window_v2(op, at_us, used, previous, amount, burst, tick_us, debt_max, cost, paid_us, now_us)
    WHEN 3 THEN sliding_log_v2(op, key, at_us, used, previous, amount, tick_us, cost, paid_us, now_us, entries)
    WHEN 5 THEN calendar_window_v1(op, at_us, used, previous, amount, burst, tick_us, debt_max, cost, paid_us, now_us)
    ELSE counter(op, at_us, used, amount, cost)
  END
$$;
