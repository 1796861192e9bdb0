-- Pays plain takes, most of all traffic, and nothing else. First what is written out in its upserts.

-- What a token bucket has earned since at_us: millionths of a token, rounded down. Exact below 2^62, which take_each ensures.
-- In plain SQL with cheap arguments, so that calls are inlined.
CREATE OR REPLACE FUNCTION earned(at_us bigint, now_us bigint, amount bigint, tick_us bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT greatest(now_us - at_us, 0) * amount / tick_us
$$;

-- The most time in which a token bucket earns what it owes, in microseconds, rounded up, and at most what is exact. A bucket that
-- never refills is kept for a window after its last payment.
CREATE OR REPLACE FUNCTION paid_off_us(owed bigint, amount bigint, tick_us bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT least(owed / greatest(amount, 1), CASE amount WHEN 0 THEN 1000000 ELSE 9007199254740991 / tick_us END) * tick_us + tick_us
$$;

-- The end of the calendar window whose row has at_us and previous. Exact for rows that take_each takes for whole.
CREATE OR REPLACE FUNCTION calendar_end(at_us bigint, previous bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (at_us / 1000000 + previous) * 1000000
$$;

-- Whether that window goes on at now_second, which is now in whole seconds: calendar windows end with a second.
CREATE OR REPLACE FUNCTION calendar_goes_on(at_us bigint, used bigint, previous bigint, now_second bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT used > 0 AND now_second < at_us / 1000000 + previous
$$;

-- The latest date of a row that is believed, in microseconds; a later one is left to the settlement under lock. tick_us: a window's seconds.
CREATE OR REPLACE FUNCTION latest_at(now_us bigint, tick_us bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT now_us + least(tick_us, 10) * 1000000
$$;

-- When a new row expires: no earlier than needed, and than a millisecond from now; rounded up.
CREATE OR REPLACE FUNCTION first_expiry(needed_us bigint, now_us bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT greatest(needed_us, now_us + 1000) / 16777216 * 16777216 + 16777216
$$;

-- When a row expires that is paid again: unchanged if that is late enough, else some 84 s later than needed, so that the next
-- payments need not change it. A changed expiry means a new row and new entries in both indexes, not an update in place.
CREATE OR REPLACE FUNCTION expiry(expires_us bigint, needed_us bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN expires_us BETWEEN needed_us AND needed_us + 83886080 THEN expires_us
    ELSE (needed_us / 16777216 + 5) * 16777216
  END
$$;

-- Pays takes of calls with a single take, most of all traffic, by one upsert for each run of keys with one limit. A bucket is paid
-- what all its takes cost together, or nothing. Takes are left to the settlement under lock (locked_takes.sql) if they have no room
-- together, or if the bucket is damaged, dated too late, or untouched for very long.
-- keys        the buckets' keys, each once and sorted: all calls lock in this order, so that they never deadlock
-- costs       per key: what its takes cost together
-- latest_us   per key: latest time at which they may pay
-- limits      per run: algorithm (0 token bucket, 1 sliding window, 2 fixed window, 5 calendar window), amount, burst, window in
--             seconds, how many of the keys are its own. A calendar window has in place of burst and window where it begins and
--             ends by the caller's zone data, in microseconds; a time outside of it is left to the settlement under lock.
-- injected_us time in microseconds, or 0 for the server's own
-- reply       a row without key, with the time in at_us; then a row per paid bucket, after the payment
-- state       as src/engine/algorithms says
-- lifetime    until the bucket is full, or longer by up to a tick of the limit and 100 s
-- Waits for rows that somebody else has locked, up to lock_timeout: then the call fails with 55P03, and nothing is paid. Time is
-- read before the wait. A later call may pay a bucket meanwhile: then time steps back for this call, which grants nothing.
-- If a take is too late after the wait, the whole call fails with 40001, to be made again.
-- A variable costs each call up to a microsecond, so there are few: numbers are written where they are used (a million is that of
-- microseconds and of a token's parts, 2^53 - 1 what is exact), and an upsert reads the time or its window's start as excluded.at_us.
CREATE OR REPLACE FUNCTION take_each(
  keys text[], costs bigint[], latest_us bigint[], limits bigint[], injected_us bigint
)
RETURNS TABLE (bucket_key text, at_us bigint, used bigint, previous bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  started timestamptz := clock_timestamp();
  now_us bigint := CASE injected_us WHEN 0 THEN extract(epoch FROM started) * 1000000 ELSE injected_us END;
  own_keys text[] := keys; own_costs bigint[] := costs; own_latest_us bigint[] := latest_us; -- those of the limit
  first int := 1;
  next int;
  algorithm bigint; amount bigint; burst bigint; window_seconds bigint;
  start_us ALIAS FOR burst; end_us ALIAS FOR window_seconds;
BEGIN
  at_us := now_us;
  RETURN NEXT;
  FOR l IN 1 .. cardinality(limits) BY 5 LOOP
    algorithm := limits[l]; amount := limits[l + 1]; burst := limits[l + 2]; window_seconds := limits[l + 3];
    IF cardinality(limits) > 5 THEN
      next := first + limits[l + 4];
      own_keys := keys[first:next - 1]; own_costs := costs[first:next - 1]; own_latest_us := latest_us[first:next - 1];
      first := next;
    END IF;
    IF algorithm = 0 THEN -- token bucket
      RETURN QUERY
      INSERT INTO bucket AS b
      SELECT asked.bucket_key, asked.time_us, asked.cost * 1000000, 0,
        first_expiry(paid_off_us(asked.cost * 1000000, amount, window_seconds) + asked.time_us, asked.time_us)
      FROM (SELECT now_us, unnest(own_keys), unnest(own_costs), unnest(own_latest_us)) asked (time_us, bucket_key, cost, latest_us)
      WHERE asked.cost <= burst AND asked.latest_us >= asked.time_us
      ON CONFLICT (bucket_key) DO UPDATE SET
        at_us = CASE
          WHEN b.used <= earned(b.at_us, excluded.at_us, amount, window_seconds) THEN greatest(b.at_us, excluded.at_us)
          ELSE b.at_us + greatest(excluded.at_us - b.at_us, 0) / window_seconds * window_seconds
        END,
        used = CASE
          WHEN b.used <= earned(b.at_us, excluded.at_us, amount, window_seconds) THEN excluded.used
          ELSE b.used - greatest(excluded.at_us - b.at_us, 0) / window_seconds * amount + excluded.used
        END,
        previous = 0,
        -- The later of: when a new bucket would have paid this off, when the old debt and this are paid off together.
        expires_us = expiry(b.expires_us, greatest(
          excluded.expires_us,
          paid_off_us(b.used + excluded.used, amount, window_seconds) + b.at_us
        ))
      WHERE CASE
        -- The earned amount of an older date could exceed 2^62.
        WHEN b.at_us >= greatest(0, excluded.at_us - 4611686018427387904 / greatest(amount, 1))
          AND b.at_us <= latest_at(excluded.at_us, window_seconds) AND b.used BETWEEN 0 AND 9007199254740991
        THEN b.used - earned(b.at_us, excluded.at_us, amount, window_seconds) <= burst * 1000000 - excluded.used
        ELSE false
      END
      RETURNING b.bucket_key, b.at_us, b.used, b.previous;
    ELSIF algorithm = 1 THEN -- sliding window
      RETURN QUERY
      INSERT INTO bucket AS b
      SELECT asked.bucket_key, asked.opens_us, asked.cost, 0,
        first_expiry(asked.opens_us + 2 * window_seconds * 1000000, asked.opens_us)
      FROM (
        SELECT now_us, now_us - now_us % (window_seconds * 1000000), unnest(own_keys), unnest(own_costs), unnest(own_latest_us)
      ) asked (time_us, opens_us, bucket_key, cost, latest_us)
      WHERE asked.cost <= amount AND asked.latest_us >= asked.time_us
      ON CONFLICT (bucket_key) DO UPDATE SET
        at_us = greatest(b.at_us, excluded.at_us),
        used = CASE WHEN b.at_us >= excluded.at_us THEN b.used ELSE 0 END + excluded.used,
        previous = CASE
          WHEN b.at_us >= excluded.at_us THEN b.previous
          WHEN b.at_us = excluded.at_us - window_seconds * 1000000 THEN b.used
          ELSE 0
        END,
        expires_us = expiry(b.expires_us, greatest(excluded.expires_us, b.at_us + 2 * window_seconds * 1000000))
      WHERE CASE
        WHEN b.at_us BETWEEN 0 AND latest_at(now_us, window_seconds) AND b.at_us % (window_seconds * 1000000) = 0
          AND b.used BETWEEN 0 AND 4294967295 AND b.previous BETWEEN 0 AND 4294967295
        THEN CASE
          WHEN b.at_us > excluded.at_us THEN b.previous <= amount - b.used - excluded.used
          -- The previous window counts by the part of it that still lies in the last window's length, in millionths.
          ELSE CASE excluded.at_us - b.at_us WHEN 0 THEN b.previous WHEN window_seconds * 1000000 THEN b.used ELSE 0 END
            * (1000000 - (now_us - excluded.at_us) / window_seconds)
            <= (amount - CASE excluded.at_us WHEN b.at_us THEN b.used ELSE 0 END - excluded.used) * 1000000
        END
        ELSE false
      END
      RETURNING b.bucket_key, b.at_us, b.used, b.previous;
    ELSIF algorithm = 5 THEN -- calendar window
      RETURN QUERY
      INSERT INTO bucket AS b
      SELECT asked.bucket_key, asked.time_us, asked.cost, end_us / 1000000 - asked.time_us / 1000000,
        first_expiry(end_us, asked.time_us)
      FROM (SELECT now_us, unnest(own_keys), unnest(own_costs), unnest(own_latest_us)) asked (time_us, bucket_key, cost, latest_us)
      WHERE asked.cost <= amount AND asked.latest_us >= asked.time_us AND asked.time_us >= start_us AND asked.time_us < end_us
      ON CONFLICT (bucket_key) DO UPDATE SET
        at_us = CASE
          WHEN calendar_goes_on(b.at_us, b.used, b.previous, excluded.at_us / 1000000) THEN b.at_us
          ELSE excluded.at_us
        END,
        used = CASE WHEN calendar_goes_on(b.at_us, b.used, b.previous, excluded.at_us / 1000000) THEN b.used ELSE 0 END + excluded.used,
        previous = CASE
          WHEN calendar_goes_on(b.at_us, b.used, b.previous, excluded.at_us / 1000000) THEN b.previous
          ELSE excluded.previous
        END,
        expires_us = expiry(b.expires_us, CASE
          WHEN calendar_goes_on(b.at_us, b.used, b.previous, excluded.at_us / 1000000)
            THEN greatest(calendar_end(b.at_us, b.previous), excluded.at_us + 1000)
          ELSE excluded.expires_us
        END)
      WHERE CASE
        WHEN b.at_us BETWEEN 0 AND 9007199254740991 AND b.used BETWEEN 0 AND 4294967295 AND b.previous BETWEEN 0 AND 4294967295
        THEN CASE
          WHEN NOT calendar_goes_on(b.at_us, b.used, b.previous, excluded.at_us / 1000000) THEN true
          -- An end that is later than the caller's by more than 26 hours is not believed.
          WHEN b.at_us > latest_at(excluded.at_us, 10) OR calendar_end(b.at_us, b.previous) - end_us > 93600000000 THEN false
          ELSE b.used + excluded.used <= amount
        END
        ELSE false
      END
      RETURNING b.bucket_key, b.at_us, b.used, b.previous;
    ELSE -- fixed window
      RETURN QUERY
      INSERT INTO bucket AS b
      SELECT asked.bucket_key, asked.opens_us, asked.cost, 0,
        first_expiry(asked.opens_us + window_seconds * 1000000, asked.time_us)
      FROM (
        SELECT now_us, now_us - now_us % (window_seconds * 1000000), unnest(own_keys), unnest(own_costs), unnest(own_latest_us)
      ) asked (time_us, opens_us, bucket_key, cost, latest_us)
      WHERE asked.cost <= amount AND asked.latest_us >= asked.time_us
      ON CONFLICT (bucket_key) DO UPDATE SET
        at_us = greatest(b.at_us, excluded.at_us),
        used = CASE WHEN b.at_us >= excluded.at_us THEN b.used ELSE 0 END + excluded.used,
        previous = 0,
        expires_us = expiry(b.expires_us, greatest(excluded.expires_us, b.at_us + window_seconds * 1000000))
      WHERE CASE
        WHEN b.at_us BETWEEN 0 AND latest_at(now_us, window_seconds) AND b.at_us % (window_seconds * 1000000) = 0
          AND b.used BETWEEN 0 AND 4294967295
        THEN CASE WHEN b.at_us >= excluded.at_us THEN b.used ELSE 0 END + excluded.used <= amount
        ELSE false
      END
      RETURNING b.bucket_key, b.at_us, b.used, b.previous;
    END IF;
  END LOOP;
  -- A full call that waits for nobody takes less than two milliseconds.
  IF injected_us = 0 AND clock_timestamp() - started > '2 milliseconds' AND EXISTS (
    SELECT FROM unnest(latest_us) asked (latest_us)
    WHERE asked.latest_us BETWEEN now_us AND extract(epoch FROM clock_timestamp()) * 1000000
  ) THEN
    RAISE EXCEPTION 'takes became too late while rows were waited for' USING ERRCODE = 'serialization_failure';
  END IF;
END $$;
