-- Token bucket: spending is a debt that `amount` tokens per window pay off; room while debt + cost fits the burst.
-- state    at_us: up to when the debt was counted off; used: debt in millionths of a token
-- lifetime until the debt is paid off
-- Answers by `op`, each an array; the state is that of `open`, by the same limit and time, but for `open` itself:
--   open       at_us, used, previous, 1 if it was dated anew; null if what is saved is nonsense
--   judge      outcome (1 room, 2 over, 3 never), ticks to wait
--   pay        at_us, used, previous; a negative cost undoes
--   post_pay   at_us, used, previous, hits that could not be recorded
--   refund     at_us, used, previous
--   give_back  at_us, used, previous, after undoing what was paid at paid_us
--   report     remaining, ticks until as new
-- All four algorithms take the same arguments, so that step can pick one. tick_us is the window in seconds.
CREATE OR REPLACE FUNCTION token_bucket(
  op text, at_us bigint, used bigint, previous bigint,
  amount bigint, burst bigint, tick_us bigint, debt_max bigint,
  cost bigint, paid_us bigint, now_us bigint
) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  ticks CONSTANT bigint := 1000000;
  exact_max CONSTANT bigint := 9007199254740991;
  is_redated boolean;
  passed bigint := 0;
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
    IF used = 0 THEN at_us := greatest(at_us, now_us); END IF;
    RETURN ARRAY[at_us, used, 0, is_redated::int];
  ELSIF op = 'judge' THEN
    IF cost > burst THEN
      RETURN ARRAY[3, CASE WHEN amount > 0 THEN (burst * ticks + amount - 1) / amount ELSE ticks END];
    END IF;
    excess := used + cost * ticks - burst * ticks;
    IF excess <= 0 THEN RETURN ARRAY[1, 0]; END IF;
    IF amount = 0 THEN RETURN ARRAY[2, ticks]; END IF;
    RETURN ARRAY[2, (excess + amount - 1) / amount + ticks_between(now_us, at_us, tick_us)];
  ELSIF op = 'pay' THEN
    RETURN ARRAY[at_us, used + cost * ticks, 0];
  ELSIF op = 'post_pay' THEN
    -- A debt above debt_max, because the rule was edited, stays owed.
    IF used > debt_max * ticks THEN RETURN ARRAY[at_us, used, 0, cost]; END IF;
    excess := greatest(0, used + cost * ticks - debt_max * ticks);
    RETURN ARRAY[at_us, used + cost * ticks - excess, 0, (excess + ticks - 1) / ticks];
  ELSIF op = 'refund' OR op = 'give_back' THEN
    RETURN ARRAY[at_us, greatest(0, used - cost * ticks), 0];
  END IF;
  RETURN ARRAY[
    greatest(0, burst * ticks - used) / ticks,
    CASE
      WHEN used = 0 THEN 0
      WHEN amount = 0 THEN ticks
      ELSE (used + amount - 1) / amount + ticks_between(now_us, at_us, tick_us)
    END
  ];
END $$;
