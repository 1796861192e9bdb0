-- Calendar window: counts within one window of a calendar and forgets at its end, as src/algorithms/calendar-window.ts says.
-- start_us, end_us and next_end_us are edges by the caller's zone data: of the current window, and the end of the next one.
-- state    at_us: the window's first hit; used: its count; previous: seconds from the second of at_us until it ends. A row
--          with used 0 has no meaning
-- lifetime until the window ends
-- Arguments and answers as token_bucket says.
CREATE OR REPLACE FUNCTION calendar_window_v1(
  op text, at_us bigint, used bigint, previous bigint,
  amount bigint, start_us bigint, end_us bigint, next_end_us bigint,
  cost bigint, paid_us bigint, now_us bigint
) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  micros CONSTANT bigint := 1000000;
  skew_max_us CONSTANT bigint := 10000000;
  edge_skew_max_us CONSTANT bigint := 93600000000; -- 26 hours
  exact_max CONSTANT bigint := 9007199254740991;
  amount_max CONSTANT bigint := 4294967295;
  held_end_us bigint := (at_us / micros + previous) * micros;
  own_end_us bigint;
  own_seconds bigint; -- from the second of now until the caller's window ends
  counted bigint;
BEGIN
  IF op = 'judge' THEN
    IF cost > amount THEN RETURN ARRAY[3, 0]; END IF;
    IF used + cost <= amount THEN RETURN ARRAY[1, 0]; END IF;
    RETURN ARRAY[2, held_end_us - now_us];
  ELSIF op = 'report' THEN
    RETURN ARRAY[greatest(0, amount - used), CASE WHEN used > 0 THEN held_end_us - now_us ELSE 0 END];
  ELSIF op = 'refund' OR op = 'give_back' THEN
    counted := CASE WHEN op = 'refund' OR paid_us >= at_us THEN greatest(0, used - cost) ELSE used END;
    RETURN ARRAY[at_us, counted, previous];
  END IF;
  -- Beyond the given edges, windows are as long as the nearest one.
  own_end_us := CASE
    WHEN now_us < start_us THEN start_us - (start_us - 1 - now_us) / (end_us - start_us) * (end_us - start_us)
    WHEN now_us < end_us THEN end_us
    WHEN now_us < next_end_us THEN next_end_us
    ELSE next_end_us + ((now_us - next_end_us) / (next_end_us - end_us) + 1) * (next_end_us - end_us)
  END;
  own_seconds := own_end_us / micros - now_us / micros;
  IF op = 'open' THEN
    IF at_us NOT BETWEEN 0 AND exact_max OR used NOT BETWEEN 0 AND amount_max OR previous NOT BETWEEN 0 AND amount_max THEN
      RETURN NULL;
    END IF;
    IF used = 0 OR now_us >= held_end_us THEN RETURN ARRAY[now_us, 0, own_seconds, 0]; END IF;
    IF at_us - now_us > skew_max_us OR held_end_us - own_end_us > edge_skew_max_us THEN
      -- The count stays, so its payments still belong to the window and can be given back.
      at_us := least(at_us, now_us);
      RETURN ARRAY[at_us, used, own_end_us / micros - at_us / micros, 1];
    END IF;
    RETURN ARRAY[at_us, used, previous, 0];
  END IF;
  -- Pays, or undoes a payment.
  counted := least(used + cost, amount_max);
  RETURN ARRAY[at_us, counted, previous, used + cost - counted];
END $$;
