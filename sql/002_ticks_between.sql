-- Ticks from one time until another, rounded up; not positive if the other has passed. Integer division drops what is
-- behind the point, which rounds a negative quotient up already.
CREATE OR REPLACE FUNCTION ticks_between(from_us bigint, to_us bigint, tick_us bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN to_us > from_us THEN (to_us - from_us + tick_us - 1) / tick_us ELSE (to_us - from_us) / tick_us END
$$;
