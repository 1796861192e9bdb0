-- Sliding window: the count of this window plus the share of the previous one that a window ending now still covers.
-- state    at_us: start of the clock-aligned window that `used` counts in; previous: count of the window before
-- lifetime until both counts have left the window
-- Arguments and answers as token_bucket says.
CREATE OR REPLACE FUNCTION sliding_window_v2(
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
  elapsed bigint := 0;
  room bigint;
  part bigint;
  is_redated boolean := false;
BEGIN
  IF op = 'open' THEN
    IF at_us NOT BETWEEN 0 AND exact_max OR at_us % window_us <> 0 OR used NOT BETWEEN 0 AND amount_max
      OR previous NOT BETWEEN 0 AND amount_max
    THEN
      RETURN NULL;
    END IF;
    start_us := now_us - now_us % window_us;
    IF at_us > now_us THEN
      is_redated := at_us > now_us + least(tick_us, 10) * ticks;
      IF is_redated THEN at_us := start_us; END IF;
    ELSIF at_us = start_us - window_us THEN
      RETURN ARRAY[start_us, 0, used, 0];
    ELSIF at_us <> start_us THEN
      RETURN ARRAY[start_us, 0, 0, 0];
    END IF;
    RETURN ARRAY[at_us, used, previous, is_redated::int];
  END IF;
  IF now_us > at_us THEN elapsed := (now_us - at_us) / tick_us; END IF;
  IF op = 'judge' THEN
    IF cost > amount THEN RETURN ARRAY[3, 0]; END IF;
    room := amount - used - cost;
    IF previous * (ticks - elapsed) <= room * ticks THEN RETURN ARRAY[1, 0]; END IF;
    -- If the cost fits beside the current count, the previous count has to fade; otherwise the current count, too.
    IF room >= 0 THEN
      part := ticks - room * ticks / previous;
    ELSE
      part := ticks + greatest(0, ticks - (amount - cost) * ticks / used);
    END IF;
    RETURN ARRAY[2, at_us + part * tick_us - now_us];
  ELSIF op = 'pay' THEN
    RETURN ARRAY[at_us, used + cost, previous];
  ELSIF op = 'post_pay' THEN
    part := least(used + cost, amount_max);
    RETURN ARRAY[at_us, part, previous, used + cost - part];
  ELSIF op = 'refund' THEN
    part := least(used, cost);
    RETURN ARRAY[at_us, used - part, greatest(0, previous - (cost - part))];
  ELSIF op = 'give_back' THEN
    start_us := paid_us - paid_us % window_us;
    IF start_us = at_us THEN RETURN ARRAY[at_us, greatest(0, used - cost), previous]; END IF;
    IF start_us = at_us - window_us THEN RETURN ARRAY[at_us, used, greatest(0, previous - cost)]; END IF;
    RETURN ARRAY[at_us, used, previous];
  END IF;
  RETURN ARRAY[
    greatest(0, (amount - used) * ticks - previous * (ticks - elapsed)) / ticks,
    CASE
      WHEN used > 0 THEN at_us + 2 * window_us - now_us
      WHEN previous > 0 THEN at_us + window_us - now_us
      ELSE 0
    END
  ];
END $$;
