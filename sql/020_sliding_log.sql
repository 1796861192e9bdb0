-- Sliding log: every payment of the last window with its time, so the limit holds in any rolling window.
-- state    saved: at_us the time of the newest entry, used the costs of all entries, previous how many they are
--          open: at_us the time to judge and pay at, used the costs that count, previous what is paid but no entry yet;
--          fifth, how many entries count
-- lifetime until the newest entry is a window old
-- Up to 128 payments each have an entry; beyond that, payments of one granule of the window share an entry, dated as the
-- last of them. So a take touches a bounded number of rows: expired entries are found by their time, a wait by walking from the
-- oldest entry. Only refund, give_back and save write; refund and give_back are never undone.
-- Arguments and answers as token_bucket says, with the bucket's key in front and the count of entries last; and
--   save       at_us, used, previous for the row, after writing the entries
CREATE OR REPLACE FUNCTION sliding_log_v2(
  op text, key text, at_us bigint, used bigint, previous bigint,
  amount bigint, tick_us bigint, cost bigint, paid_us bigint, now_us bigint, entries bigint
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ticks CONSTANT bigint := 1000000;
  exact_max CONSTANT bigint := 9007199254740991;
  amount_max CONSTANT bigint := 4294967295;
  window_us bigint := tick_us * ticks;
BEGIN
  IF op = 'open' THEN
    IF at_us NOT BETWEEN 0 AND exact_max OR used NOT BETWEEN 0 AND amount_max OR previous NOT BETWEEN 0 AND 10000 THEN
      RETURN NULL;
    END IF;
    IF previous = 0 THEN RETURN CASE WHEN used = 0 THEN ARRAY[now_us, 0, 0, 0, 0] END; END IF;
    RETURN log_open_v2(key, at_us, used, previous, now_us, window_us, least(tick_us, 10) * ticks);
  ELSIF op = 'judge' THEN
    IF cost > amount THEN RETURN ARRAY[3, 0]; END IF;
    IF used + previous + cost <= amount THEN RETURN ARRAY[1, 0]; END IF;
    RETURN ARRAY[
      2, log_time_that_frees_v2(key, at_us, used + previous + cost - amount, window_us, previous, entries) + window_us - now_us
    ];
  ELSIF op = 'pay' THEN
    RETURN ARRAY[at_us, used, previous + cost, 0, entries];
  ELSIF op = 'post_pay' THEN
    paid_us := least(cost, amount_max - used - previous);
    RETURN ARRAY[at_us, used, previous + paid_us, cost - paid_us, entries];
  ELSIF op = 'refund' THEN
    RETURN log_refund_v2(key, at_us, used, previous, window_us, cost, entries);
  ELSIF op = 'give_back' THEN
    RETURN log_give_back_v2(key, at_us, used, previous, window_us, cost, paid_us, entries);
  ELSIF op = 'save' THEN
    RETURN log_save_v2(key, at_us, used, previous, window_us, entries);
  END IF;
  RETURN ARRAY[
    greatest(0, amount - used - previous),
    CASE
      WHEN used + previous = 0 THEN 0
      WHEN previous > 0 THEN at_us + window_us - now_us
      ELSE least(at_us, (log_newest_v2(key)).at_us) + window_us - now_us
    END
  ];
END $$;
