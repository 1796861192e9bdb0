-- Fixed window: counts within one clock-aligned window and forgets at its end.
-- state    at_us: start of the window; used: its count
-- lifetime until the window ends
-- Arguments and answers as token_bucket says.
CREATE OR REPLACE FUNCTION fixed_window_v2(
  op text, at_us bigint, used bigint, previous bigint,
  amount bigint, burst bigint, tick_us bigint, debt_max bigint,
  cost bigint, paid_us bigint, now_us bigint
) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  ticks CONSTANT bigint := 1000000;
  exact_max CONSTANT bigint := 9007199254740991;
  amount_max CONSTANT bigint := 4294967295;
  window_us bigint := tick_us * ticks;
  start_us bigint;
  counted bigint;
  is_redated boolean := false;
BEGIN
  IF op = 'open' THEN
    IF at_us NOT BETWEEN 0 AND exact_max OR at_us % window_us <> 0 OR used NOT BETWEEN 0 AND amount_max THEN
      RETURN NULL;
    END IF;
    start_us := now_us - now_us % window_us;
    IF at_us > now_us THEN
      is_redated := at_us > now_us + least(tick_us, 10) * ticks;
      IF is_redated THEN at_us := start_us; END IF;
    ELSIF at_us <> start_us THEN
      RETURN ARRAY[start_us, 0, 0, 0];
    END IF;
    RETURN ARRAY[at_us, used, 0, is_redated::int];
  ELSIF op = 'judge' THEN
    IF cost > amount THEN RETURN ARRAY[3, 0]; END IF;
    IF used + cost <= amount THEN RETURN ARRAY[1, 0]; END IF;
    RETURN ARRAY[2, at_us + window_us - now_us];
  ELSIF op = 'pay' THEN
    RETURN ARRAY[at_us, used + cost, 0];
  ELSIF op = 'post_pay' THEN
    counted := least(used + cost, amount_max);
    RETURN ARRAY[at_us, counted, 0, used + cost - counted];
  ELSIF op = 'refund' OR (op = 'give_back' AND paid_us - paid_us % window_us = at_us) THEN
    RETURN ARRAY[at_us, greatest(0, used - cost), 0];
  ELSIF op = 'give_back' THEN
    RETURN ARRAY[at_us, used, 0];
  END IF;
  RETURN ARRAY[
    greatest(0, amount - used),
    CASE WHEN used > 0 THEN at_us + window_us - now_us ELSE 0 END
  ];
END $$;
