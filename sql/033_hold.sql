-- Opens, settles and closes the holds of a bucket, as src/algorithms/holds.ts says. An id is null if the take has none. The
-- bucket comes from open_held and look_at.

-- When a caller may try again if all places are taken: after about the age of the oldest hold divided by the number of holds, at
-- the latest when the first hold ends. Null without holds.
CREATE OR REPLACE FUNCTION hold_wait_v1(bucket held_bucket_v1, now_us bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  wait_min_us CONSTANT bigint := 1000000;
  first_hold hold;
BEGIN
  SELECT * INTO first_hold FROM hold h WHERE h.bucket_key = bucket.bucket_key COLLATE "C" ORDER BY h.ends_us, h.number LIMIT 1;
  RETURN least(
    greatest(1, first_hold.ends_us - now_us),
    greatest(wait_min_us, greatest(0, now_us - first_hold.paid_us) / bucket.live)
  );
END $$;

-- Whether that hold was settled and is not forgotten yet.
CREATE OR REPLACE FUNCTION is_settled_v1(bucket held_bucket_v1, id text, now_us bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM settled_hold s
    WHERE s.bucket_key = bucket.bucket_key COLLATE "C" AND s.hold_id = id COLLATE "C" AND s.until_us > now_us
  );
END $$;

-- Remembers, for as long as holds last, that this hold was settled.
CREATE OR REPLACE FUNCTION note_settled_v1(bucket held_bucket_v1, id text, now_us bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF id IS NULL THEN RETURN; END IF;
  INSERT INTO settled_hold VALUES (bucket.bucket_key, id, now_us + bucket.hold_us)
  ON CONFLICT (bucket_key, hold_id) DO UPDATE SET until_us = excluded.until_us;
END $$;

-- Opens a hold for what was paid. A payment under a known id is final, except on a bucket that counts holds.
CREATE OR REPLACE FUNCTION open_hold_v1(bucket held_bucket_v1, id text, cost bigint, paid_us bigint, now_us bigint)
RETURNS held_bucket_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  end_us CONSTANT bigint := now_us + bucket.hold_us;
BEGIN
  -- An ended hold may still wait to be given back; its id is free.
  UPDATE hold h SET hold_id = NULL
  WHERE h.bucket_key = bucket.bucket_key COLLATE "C" AND h.hold_id = id COLLATE "C" AND h.ends_us <= now_us;
  IF id IS NOT NULL AND (is_settled_v1(bucket, id, now_us) OR EXISTS (
    SELECT FROM hold h WHERE h.bucket_key = bucket.bucket_key COLLATE "C" AND h.hold_id = id COLLATE "C"
  )) THEN
    id := NULL;
  END IF;
  IF id IS NULL AND NOT bucket.is_concurrent THEN RETURN bucket; END IF;
  INSERT INTO hold (bucket_key, ends_us, hold_id, cost, paid_us, payment)
  VALUES (bucket.bucket_key, end_us, id, open_hold_v1.cost, open_hold_v1.paid_us, bucket.payment);
  bucket.is_book_changed := true;
  bucket.live := bucket.live + 1;
  bucket.held_payment := bucket.payment;
  bucket.held_cost := bucket.held_cost + open_hold_v1.cost;
  bucket.last_end_us := greatest(bucket.last_end_us, end_us);
  RETURN bucket;
END $$;

-- Pays what was reported, with or without room.
CREATE OR REPLACE FUNCTION charge_reported_v1(bucket held_bucket_v1, cost bigint, now_us bigint)
RETURNS held_bucket_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  state bigint[];
BEGIN
  bucket := note_payment_v1(bucket, now_us);
  state := held_step_v1(bucket, 'post_pay', cost, 0, now_us);
  bucket.used := state[2];
  bucket.previous := state[3];
  bucket.capped := state[4];
  RETURN bucket;
END $$;

-- Settles the hold with what was used, and notes the result in the bucket.
CREATE OR REPLACE FUNCTION settle_hold_v1(bucket held_bucket_v1, id text, reported bigint, now_us bigint)
RETURNS held_bucket_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  none CONSTANT bigint := -1;
  settled_already CONSTANT bigint := -2;
  settled hold;
  used bigint := CASE WHEN bucket.is_concurrent THEN 0 ELSE reported END;
BEGIN
  bucket.capped := 0;
  DELETE FROM hold h
  WHERE h.bucket_key = bucket.bucket_key COLLATE "C" AND h.hold_id = id COLLATE "C" AND h.ends_us > now_us
  RETURNING * INTO settled;
  IF NOT FOUND THEN
    bucket.found := CASE WHEN is_settled_v1(bucket, id, now_us) THEN settled_already ELSE none END;
    IF bucket.found = settled_already THEN RETURN bucket; END IF;
    PERFORM note_settled_v1(bucket, id, now_us);
    IF bucket.is_concurrent THEN RETURN bucket; END IF;
    RETURN charge_reported_v1(bucket, used, now_us);
  END IF;
  bucket.found := settled.cost;
  IF used < settled.cost THEN bucket := give_back_held_v1(bucket, settled, settled.cost - used, now_us); END IF;
  bucket := release_hold_v1(bucket, settled.cost);
  PERFORM note_settled_v1(bucket, id, now_us);
  IF used > settled.cost THEN RETURN charge_reported_v1(bucket, used - settled.cost, now_us); END IF;
  RETURN bucket;
END $$;

-- Ends the hold of a payment that is given back, and gives back what it paid. If the hold has ended or was settled, nothing is
-- left to give back.
CREATE OR REPLACE FUNCTION close_hold_v1(bucket held_bucket_v1, id text, cost bigint, paid_us bigint, now_us bigint)
RETURNS held_bucket_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  named hold;
  closed hold;
  state bigint[];
BEGIN
  SELECT * INTO named FROM hold h WHERE h.bucket_key = bucket.bucket_key COLLATE "C" AND h.hold_id = id COLLATE "C";
  IF named.paid_us = close_hold_v1.paid_us THEN
    closed := named;
  ELSIF bucket.is_concurrent THEN
    SELECT * INTO closed FROM hold h
    WHERE h.bucket_key = bucket.bucket_key COLLATE "C" AND h.hold_id IS NULL AND h.paid_us = close_hold_v1.paid_us
    ORDER BY h.ends_us DESC, h.number DESC LIMIT 1;
  END IF;
  IF closed.number IS NOT NULL THEN
    DELETE FROM hold h
    WHERE h.bucket_key = closed.bucket_key AND h.ends_us = closed.ends_us AND h.number = closed.number;
    bucket := give_back_held_v1(bucket, closed, close_hold_v1.cost, now_us);
    RETURN release_hold_v1(bucket, closed.cost);
  END IF;
  -- If another payment's hold has the id, this payment was final and has no hold; neither has a payment without an id.
  IF named.number IS NULL AND (id IS NOT NULL OR bucket.is_concurrent) THEN RETURN bucket; END IF;
  state := held_step_v1(bucket, 'give_back', close_hold_v1.cost, close_hold_v1.paid_us, now_us);
  bucket.at_us := state[1];
  bucket.used := state[2];
  bucket.previous := state[3];
  RETURN bucket;
END $$;
