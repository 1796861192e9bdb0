-- Counter as envoyproxy/ratelimit keeps it: one number per window, under a key that names the window. Charged in any case,
-- for itself alone; a call charges it before the rest of the call is settled.
-- state    used: the count, which stays full when it is; at_us: 0
-- lifetime a window from its last charge on
-- Answers, by op: open as token_bucket says; charge and refund the state; report what is left of the limit, and no reset.
CREATE OR REPLACE FUNCTION counter(op text, at_us bigint, used bigint, amount bigint, cost bigint) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  count_max CONSTANT bigint := 9223372036854775807;
BEGIN
  IF op = 'open' THEN
    IF at_us <> 0 OR used < 0 THEN RETURN NULL; END IF;
    RETURN ARRAY[0, used, 0, 0];
  ELSIF op = 'charge' THEN
    RETURN ARRAY[0, CASE WHEN cost > count_max - used THEN count_max ELSE used + cost END, 0];
  ELSIF op = 'refund' THEN
    RETURN ARRAY[0, greatest(0, used - cost), 0];
  END IF;
  RETURN ARRAY[greatest(0, amount - used), 0];
END $$;
