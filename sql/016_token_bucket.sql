-- Token bucket: spending is a debt that `amount` tokens per window pay off; a cost has room while debt + cost fits the burst.
-- state    at_us: up to when the debt was paid off, by whole ticks; used: debt in millionths of a token
-- lifetime until the debt is paid off
-- A tick is as many microseconds as the window has seconds and pays off `amount` millionths. The debt always counts with what
-- the part of a tick since at_us has paid off, so nothing comes late or is rounded away.
-- Answers by `op`, each an array. All but `open` take the state that `open` returned, for the same limit and time:
--   open       at_us, used, previous, 1 if it was dated anew; null if the saved numbers make no sense
--   hand_over  at_us, used, previous: a state that another limit can continue
--   judge      outcome (1 room, 2 over, 3 never), microseconds to wait
--   pay        at_us, used, previous; a negative cost undoes
--   post_pay   at_us, used, previous, hits that could not be recorded
--   refund     at_us, used, previous
--   give_back  at_us, used, previous, after undoing what was paid at paid_us
--   report     remaining, microseconds until as new
-- All algorithms take the same arguments, so that step can pick one. tick_us is the window in seconds.
CREATE OR REPLACE FUNCTION token_bucket_v2(
  op text, at_us bigint, used bigint, previous bigint,
  amount bigint, burst bigint, tick_us bigint, debt_max bigint,
  cost bigint, paid_us bigint, now_us bigint
) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  ticks CONSTANT bigint := 1000000;
  exact_max CONSTANT bigint := 9007199254740991;
  wait_max CONSTANT bigint := 315360000000000;
  is_redated boolean;
  passed bigint := 0;
  paid_off bigint := 0; -- by the part of a tick since at_us
  excess bigint;
BEGIN
  IF op = 'open' THEN
    IF at_us NOT BETWEEN 0 AND exact_max OR used NOT BETWEEN 0 AND exact_max THEN RETURN NULL; END IF;
    is_redated := at_us > now_us + least(tick_us, 10) * ticks;
    IF is_redated THEN at_us := now_us; END IF;
    IF now_us > at_us THEN passed := (now_us - at_us) / tick_us; END IF;
    IF amount > 0 AND passed >= (used + amount - 1) / amount THEN
      used := 0;
    ELSE
      used := used - passed * amount;
      at_us := at_us + passed * tick_us;
    END IF;
    IF used <= refill_of(greatest(0, now_us - at_us), amount, tick_us) THEN
      used := 0;
      at_us := greatest(at_us, now_us);
    END IF;
    RETURN ARRAY[at_us, used, 0, is_redated::int];
  END IF;
  IF now_us > at_us THEN paid_off := refill_of(now_us - at_us, amount, tick_us); END IF;
  IF op = 'judge' THEN
    IF cost > burst THEN RETURN ARRAY[3, 0]; END IF;
    excess := used + cost * ticks - burst * ticks;
    IF excess <= paid_off THEN RETURN ARRAY[1, 0]; END IF;
    IF amount = 0 THEN RETURN ARRAY[2, tick_us * ticks]; END IF;
    excess := us_to_refill(excess, amount, tick_us);
    RETURN ARRAY[2, CASE WHEN excess = wait_max THEN excess ELSE least(wait_max, excess + at_us - now_us) END];
  ELSIF op = 'pay' THEN
    RETURN ARRAY[at_us, used + cost * ticks, 0];
  ELSIF op = 'post_pay' THEN
    -- A debt above debt_max, after an edit of the rule, stays owed.
    IF used > debt_max * ticks + paid_off THEN RETURN ARRAY[at_us, used, 0, cost]; END IF;
    excess := greatest(0, used + cost * ticks - debt_max * ticks - paid_off);
    RETURN ARRAY[at_us, used + cost * ticks - excess, 0, (excess + ticks - 1) / ticks];
  ELSIF op = 'refund' OR op = 'give_back' THEN
    excess := cost * ticks;
    -- Tokens that returned since the payment are not given back: without the payment the bucket may have been full.
    IF op = 'give_back' AND now_us > paid_us AND amount > 0 THEN
      excess := excess - refill_of(now_us - paid_us, amount, tick_us) - 1;
      IF excess <= 0 THEN RETURN ARRAY[at_us, used, 0]; END IF;
    END IF;
    used := greatest(0, used - excess);
    IF used <= paid_off THEN RETURN ARRAY[greatest(at_us, now_us), 0, 0]; END IF;
    RETURN ARRAY[at_us, used, 0];
  ELSIF op = 'hand_over' THEN
    RETURN ARRAY[greatest(at_us, now_us), used - paid_off, 0];
  END IF;
  IF used > 0 AND amount > 0 THEN
    excess := us_to_refill(used, amount, tick_us);
    IF excess <> wait_max THEN excess := least(wait_max, excess + at_us - now_us); END IF;
  ELSE
    excess := CASE WHEN used > 0 THEN tick_us * ticks ELSE 0 END;
  END IF;
  RETURN ARRAY[greatest(0, burst * ticks - used + paid_off) / ticks, excess];
END $$;
