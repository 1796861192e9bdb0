-- What a token bucket has earned since at_us: millionths of a token, rounded down. Exact below 2^62, which take_each ensures.
-- In plain SQL with cheap arguments, so that calls are inlined.
CREATE OR REPLACE FUNCTION earned_v1(at_us bigint, now_us bigint, amount bigint, tick_us bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT greatest(now_us - at_us, 0) * amount / tick_us
$$;

-- When the window of a calendar ends whose row says at_us and previous. Exact for rows that take_each takes for whole.
CREATE OR REPLACE FUNCTION calendar_end_v1(at_us bigint, previous bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (at_us / 1000000 + previous) * 1000000
$$;

-- Whether that window goes on at now_second, which is now in whole seconds: windows of a calendar end with a second.
CREATE OR REPLACE FUNCTION calendar_goes_on_v1(at_us bigint, used bigint, previous bigint, now_second bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT used > 0 AND now_second < at_us / 1000000 + previous
$$;

-- When a row expires that is paid again: unchanged if that is late enough, else some 84 s later than needed, so that the next
-- payments need not change it. A changed expiry means a new row and new entries in both indexes, not an update in place.
CREATE OR REPLACE FUNCTION expiry_v1(expires_us bigint, needed_us bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN expires_us BETWEEN needed_us AND needed_us + 83886080 THEN expires_us
    ELSE (needed_us / 16777216 + 5) * 16777216
  END
$$;

-- Pays takes of calls with a single take, most of all traffic, at a fifth of take_all's cost: one upsert for all buckets of a
-- limit. A bucket is paid what all its takes cost together, or nothing. It is left to take_all if that has no room, or if the
-- bucket is damaged, dated too late, or untouched for very long.
-- keys        the buckets' keys, each once, those of one limit together and sorted
-- costs       per key: what its takes cost together
-- latest_us   per key: latest time at which they may pay
-- limits      per limit: algorithm (0 token bucket, 1 sliding window, 2 fixed window, 5 calendar window), amount, burst, window in
--             seconds, how many of the keys are its own. A calendar window has in place of burst and window where it begins and
--             ends by the caller's zone data, in microseconds; a time outside of it is left to take_all. All calls use the same
--             order of limits and keys, so that they never deadlock.
-- injected_us time in microseconds, or 0 for the server's own
-- reply       a row without key, with the time in at_us; then a row per paid bucket, after the payment
-- state       as each algorithm's file says
-- lifetime    as take_all writes it, or longer by up to a tick of the limit and 100 s; not cut at ten years
-- Waits for rows that somebody else has locked, up to lock_timeout: then the call fails with 55P03, and nothing is paid. Time is
-- read before the wait. A later call may pay a bucket meanwhile: then time steps back for this call, which grants nothing.
-- If a take is too late after the wait, the whole call fails with 40001, to be made again.
CREATE OR REPLACE FUNCTION take_each_v2(
  keys text[], costs bigint[], latest_us bigint[], limits bigint[], injected_us bigint
)
RETURNS TABLE (bucket_key text, at_us bigint, used bigint, previous bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  token_bucket CONSTANT bigint := 0;
  sliding_window CONSTANT bigint := 1;
  calendar_window CONSTANT bigint := 5;
  fields CONSTANT int := 5;
  micros CONSTANT bigint := 1000000; -- of a token, of a second, and ticks of a window
  exact_max CONSTANT bigint := 9007199254740991;
  amount_max CONSTANT bigint := 4294967295;
  product_max CONSTANT bigint := 4611686018427387904;
  lifetime_min_us CONSTANT bigint := 1000;
  edge_skew_max_us CONSTANT bigint := 93600000000; -- 26 hours; a later end than the caller's by more is not believed
  grain_us CONSTANT bigint := 16777216; -- as write_buckets rounds
  quick CONSTANT interval := '2 milliseconds'; -- what a full call takes that waits for nobody
  started timestamptz := clock_timestamp();
  now_us bigint := injected_us;
  own_keys text[] := keys; own_costs bigint[] := costs; own_latest_us bigint[] := latest_us; -- those of the limit
  first int := 1;
  next int;
  algorithm bigint; amount bigint; burst bigint; tick_us bigint;
  burst_micros bigint; refill bigint; ticks_max bigint; soonest_us bigint;
  window_us bigint; start_us bigint; shares bigint;
  end_us bigint; now_second bigint;
  -- States with other dates are left to take_all.
  earliest_at bigint; latest_at bigint;
BEGIN
  IF now_us = 0 THEN now_us := extract(epoch FROM started) * micros; END IF;
  at_us := now_us;
  RETURN NEXT;
  FOR l IN 1 .. cardinality(limits) BY fields LOOP
    algorithm := limits[l]; amount := limits[l + 1]; burst := limits[l + 2]; tick_us := limits[l + 3];
    IF cardinality(limits) > fields THEN
      next := first + limits[l + 4];
      own_keys := keys[first:next - 1]; own_costs := costs[first:next - 1]; own_latest_us := latest_us[first:next - 1];
      first := next;
    END IF;
    soonest_us := now_us + lifetime_min_us;
    latest_at := now_us + least(tick_us, 10) * micros;
    IF algorithm = token_bucket THEN
      burst_micros := burst * micros;
      -- A bucket that never refills is kept for a window after its last payment.
      refill := greatest(amount, 1);
      ticks_max := CASE amount WHEN 0 THEN micros ELSE exact_max / tick_us END;
      earliest_at := greatest(0, now_us - product_max / refill);
      RETURN QUERY
      INSERT INTO bucket AS b
      SELECT asked.bucket_key, now_us, asked.cost * micros, 0,
        greatest(least(asked.cost * micros / refill, ticks_max) * tick_us + tick_us + now_us, soonest_us) / grain_us * grain_us + grain_us
      FROM (SELECT unnest(own_keys), unnest(own_costs), unnest(own_latest_us)) asked (bucket_key, cost, latest_us)
      WHERE asked.cost <= burst AND asked.latest_us >= now_us
      ON CONFLICT (bucket_key) DO UPDATE SET
        at_us = CASE
          WHEN b.used <= earned_v1(b.at_us, now_us, amount, tick_us) THEN greatest(b.at_us, now_us)
          ELSE b.at_us + greatest(now_us - b.at_us, 0) / tick_us * tick_us
        END,
        used = CASE
          WHEN b.used <= earned_v1(b.at_us, now_us, amount, tick_us) THEN excluded.used
          ELSE b.used - greatest(now_us - b.at_us, 0) / tick_us * amount + excluded.used
        END,
        previous = 0,
        -- The later of: when a new bucket would have paid this off, when the old debt and this are paid off together.
        expires_us = expiry_v1(b.expires_us, greatest(
          excluded.expires_us,
          least((b.used + excluded.used) / refill, ticks_max) * tick_us + tick_us + b.at_us
        ))
      WHERE CASE WHEN b.at_us BETWEEN earliest_at AND latest_at AND b.used BETWEEN 0 AND exact_max
        THEN b.used - earned_v1(b.at_us, now_us, amount, tick_us) <= burst_micros - excluded.used
        ELSE false
      END
      RETURNING b.bucket_key, b.at_us, b.used, b.previous;
    ELSIF algorithm = sliding_window THEN
      window_us := tick_us * micros;
      start_us := now_us - now_us % window_us;
      shares := micros - (now_us - start_us) / tick_us; -- of the previous window, in millionths
      RETURN QUERY
      INSERT INTO bucket AS b
      SELECT asked.bucket_key, start_us, asked.cost, 0, (start_us + 2 * window_us) / grain_us * grain_us + grain_us
      FROM (SELECT unnest(own_keys), unnest(own_costs), unnest(own_latest_us)) asked (bucket_key, cost, latest_us)
      WHERE asked.cost <= amount AND asked.latest_us >= now_us
      ON CONFLICT (bucket_key) DO UPDATE SET
        at_us = greatest(b.at_us, start_us),
        used = CASE WHEN b.at_us >= start_us THEN b.used ELSE 0 END + excluded.used,
        previous = CASE
          WHEN b.at_us >= start_us THEN b.previous
          WHEN b.at_us = start_us - window_us THEN b.used
          ELSE 0
        END,
        expires_us = expiry_v1(b.expires_us, greatest(excluded.expires_us, b.at_us + 2 * window_us))
      WHERE CASE WHEN b.at_us BETWEEN 0 AND latest_at AND b.at_us % window_us = 0
          AND b.used BETWEEN 0 AND amount_max AND b.previous BETWEEN 0 AND amount_max
        THEN CASE
          WHEN b.at_us = start_us THEN b.previous * shares <= (amount - b.used - excluded.used) * micros
          WHEN b.at_us > start_us THEN b.previous <= amount - b.used - excluded.used
          WHEN b.at_us = start_us - window_us THEN b.used * shares <= (amount - excluded.used) * micros
          ELSE true
        END
        ELSE false
      END
      RETURNING b.bucket_key, b.at_us, b.used, b.previous;
    ELSIF algorithm = calendar_window THEN
      start_us := burst; end_us := tick_us;
      now_second := now_us / micros;
      RETURN QUERY
      INSERT INTO bucket AS b
      SELECT asked.bucket_key, now_us, asked.cost, end_us / micros - now_second, greatest(end_us, soonest_us) / grain_us * grain_us + grain_us
      FROM (SELECT unnest(own_keys), unnest(own_costs), unnest(own_latest_us)) asked (bucket_key, cost, latest_us)
      WHERE asked.cost <= amount AND asked.latest_us >= now_us AND now_us BETWEEN start_us AND end_us - 1
      ON CONFLICT (bucket_key) DO UPDATE SET
        at_us = CASE WHEN calendar_goes_on_v1(b.at_us, b.used, b.previous, now_second) THEN b.at_us ELSE now_us END,
        used = CASE WHEN calendar_goes_on_v1(b.at_us, b.used, b.previous, now_second) THEN b.used ELSE 0 END + excluded.used,
        previous = CASE
          WHEN calendar_goes_on_v1(b.at_us, b.used, b.previous, now_second) THEN b.previous
          ELSE excluded.previous
        END,
        expires_us = expiry_v1(b.expires_us, CASE
          WHEN calendar_goes_on_v1(b.at_us, b.used, b.previous, now_second)
            THEN greatest(calendar_end_v1(b.at_us, b.previous), soonest_us)
          ELSE excluded.expires_us
        END)
      WHERE CASE WHEN b.at_us BETWEEN 0 AND exact_max AND b.used BETWEEN 0 AND amount_max AND b.previous BETWEEN 0 AND amount_max
        THEN CASE
          WHEN NOT calendar_goes_on_v1(b.at_us, b.used, b.previous, now_second) THEN true
          WHEN b.at_us > latest_at OR calendar_end_v1(b.at_us, b.previous) - end_us > edge_skew_max_us THEN false
          ELSE b.used + excluded.used <= amount
        END
        ELSE false
      END
      RETURNING b.bucket_key, b.at_us, b.used, b.previous;
    ELSE
      window_us := tick_us * micros;
      start_us := now_us - now_us % window_us;
      RETURN QUERY
      INSERT INTO bucket AS b
      SELECT asked.bucket_key, start_us, asked.cost, 0, greatest(start_us + window_us, soonest_us) / grain_us * grain_us + grain_us
      FROM (SELECT unnest(own_keys), unnest(own_costs), unnest(own_latest_us)) asked (bucket_key, cost, latest_us)
      WHERE asked.cost <= amount AND asked.latest_us >= now_us
      ON CONFLICT (bucket_key) DO UPDATE SET
        at_us = greatest(b.at_us, start_us),
        used = CASE WHEN b.at_us >= start_us THEN b.used ELSE 0 END + excluded.used,
        previous = 0,
        expires_us = expiry_v1(b.expires_us, greatest(excluded.expires_us, b.at_us + window_us))
      WHERE CASE WHEN b.at_us BETWEEN 0 AND latest_at AND b.at_us % window_us = 0 AND b.used BETWEEN 0 AND amount_max
        THEN CASE WHEN b.at_us >= start_us THEN b.used ELSE 0 END + excluded.used <= amount
        ELSE false
      END
      RETURNING b.bucket_key, b.at_us, b.used, b.previous;
    END IF;
  END LOOP;
  IF injected_us = 0 AND clock_timestamp() - started > quick AND EXISTS (
    SELECT FROM unnest(latest_us) asked (latest_us)
    WHERE asked.latest_us BETWEEN now_us AND extract(epoch FROM clock_timestamp()) * micros
  ) THEN
    RAISE EXCEPTION 'takes became too late while rows were waited for' USING ERRCODE = 'serialization_failure';
  END IF;
END $$;
