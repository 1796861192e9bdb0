-- How tokens return to a bucket with time: `amount` millionths of a token each tick. A tick is as many microseconds as
-- the window has seconds. Products stay below 2^63: a tick is below 2^25 and an amount below 2^32.

-- Millionths of a token that return in `us`, rounded down, at most 2^60.
CREATE OR REPLACE FUNCTION refill_of(us bigint, amount bigint, tick_us bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN amount = 0 THEN 0
    WHEN us / tick_us > 1152921504606846976 / amount THEN 1152921504606846976
    ELSE us / tick_us * amount + us % tick_us * amount / tick_us
  END
$$;

-- Microseconds until that many millionths have returned, rounded up; ten years at most.
CREATE OR REPLACE FUNCTION us_to_refill(debt bigint, amount bigint, tick_us bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN debt / amount > 315360000000000 / tick_us THEN 315360000000000
    ELSE least(315360000000000, debt / amount * tick_us + (debt % amount * tick_us + amount - 1) / amount)
  END
$$;
