-- A bucket with holds: how a call reads it, what payments and the end of a hold do to it, and how its book is written.

-- What the bucket's algorithm answers (023_step.sql).
CREATE OR REPLACE FUNCTION held_step_v1(bucket held_bucket_v1, op text, cost bigint, paid_us bigint, now_us bigint)
RETURNS bigint[] LANGUAGE sql VOLATILE AS $$
  SELECT step_v3($2, ($1).limit_numbers, 0, ($1).bucket_key, ($1).at_us, ($1).used, ($1).previous, 0, $3, $4, $5)
$$;

-- The bucket at this time, under the limit whose numbers follow that place in take_all's `limits`.
CREATE OR REPLACE FUNCTION look_at_v1(
  bucket held_bucket_v1, limits bigint[], limit_at int, at_us bigint, used bigint, previous bigint
) RETURNS held_bucket_v1 LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  bucket.algorithm := limits[limit_at + 1];
  bucket.amount := limits[limit_at + 2];
  bucket.tick_us := limits[limit_at + 4];
  bucket.limit_numbers := limits[limit_at + 1:limit_at + 5];
  bucket.hold_us := limits[limit_at + 6];
  bucket.is_concurrent := limits[limit_at + 7] = 1;
  bucket.at_us := look_at_v1.at_us;
  bucket.used := look_at_v1.used;
  bucket.previous := look_at_v1.previous;
  RETURN bucket;
END $$;

-- A payment is about to be made.
CREATE OR REPLACE FUNCTION note_payment_v1(bucket held_bucket_v1, now_us bigint) RETURNS held_bucket_v1
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  token_bucket CONSTANT bigint := 0;
BEGIN
  IF bucket.algorithm <> token_bucket OR bucket.is_concurrent OR bucket.live = 0 THEN RETURN bucket; END IF;
  RETURN note_low_v1(bucket, bucket.used - refill_of(greatest(0, now_us - bucket.at_us), bucket.amount, bucket.tick_us));
END $$;

-- Gives back `cost` of what the hold has paid. A token bucket gets back only what it has owed at all times since.
CREATE OR REPLACE FUNCTION give_back_held_v1(bucket held_bucket_v1, given_back hold, cost bigint, now_us bigint)
RETURNS held_bucket_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  token_bucket CONSTANT bigint := 0;
  micros CONSTANT bigint := 1000000;
  paid_off bigint; -- by the part of a tick since at_us
  debt bigint;
  state bigint[];
BEGIN
  IF bucket.is_concurrent THEN
    bucket.used := greatest(0, bucket.used - cost * micros);
  ELSIF bucket.algorithm = token_bucket THEN
    paid_off := refill_of(greatest(0, now_us - bucket.at_us), bucket.amount, bucket.tick_us);
    -- Without such a low nothing can be given back.
    debt := least(cost * micros, bucket.lows[first_low_after_v1(bucket, given_back.payment)], bucket.used - paid_off);
    bucket.used := greatest(0, bucket.used - debt);
    IF bucket.used <= paid_off THEN
      bucket.used := 0;
      bucket.at_us := greatest(bucket.at_us, now_us);
    END IF;
    bucket := take_off_lows_v1(bucket, given_back.payment, debt);
  ELSE
    state := held_step_v1(bucket, 'give_back', cost, given_back.paid_us, now_us);
    bucket.at_us := state[1];
    bucket.used := state[2];
    bucket.previous := state[3];
  END IF;
  RETURN bucket;
END $$;

-- A hold that has paid this much is gone. The lows go with the last hold.
CREATE OR REPLACE FUNCTION release_hold_v1(bucket held_bucket_v1, cost bigint) RETURNS held_bucket_v1
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  bucket.is_book_changed := true;
  bucket.live := bucket.live - 1;
  bucket.held_cost := bucket.held_cost - cost;
  IF bucket.live = 0 THEN
    bucket.payment := 0;
    bucket.held_payment := 0;
    bucket.held_cost := 0;
    bucket.low_payments := '{}';
    bucket.lows := '{}';
  END IF;
  RETURN bucket;
END $$;

-- Gives back the holds that have ended, each at the time of its end: `ends_max` at most, the rest in later calls.
CREATE OR REPLACE FUNCTION end_holds_v1(bucket held_bucket_v1, ends_max bigint, now_us bigint) RETURNS held_bucket_v1
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ended hold;
  last_ended hold;
  end_us bigint;
  state bigint[];
BEGIN
  FOR ended IN
    SELECT * FROM hold h WHERE h.bucket_key = bucket.bucket_key COLLATE "C" AND h.ends_us <= now_us
    ORDER BY h.ends_us, h.number LIMIT ends_max
  LOOP
    last_ended := ended;
    bucket.ended := bucket.ended + 1;
    end_us := least(now_us, greatest(ended.ends_us, bucket.at_us));
    state := held_step_v1(bucket, 'open', 0, 0, end_us);
    -- A damaged bucket gets nothing back: it is new.
    IF state IS NOT NULL THEN
      bucket.at_us := state[1];
      bucket.used := state[2];
      bucket.previous := state[3];
      bucket := give_back_held_v1(bucket, ended, ended.cost, end_us);
    END IF;
    bucket := release_hold_v1(bucket, ended.cost);
  END LOOP;
  IF bucket.ended > 0 THEN
    DELETE FROM hold h WHERE h.bucket_key = bucket.bucket_key COLLATE "C"
      AND (h.ends_us, h.number) <= (last_ended.ends_us, last_ended.number);
  END IF;
  RETURN bucket;
END $$;

-- Reads the book of a bucket, and ends holds. A bucket that counts holds has no book: its count is the number of its holds.
CREATE OR REPLACE FUNCTION read_held_v1(bucket held_bucket_v1, ends_max bigint, now_us bigint) RETURNS held_bucket_v1
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  book hold_book;
BEGIN
  bucket.is_book_changed := false;
  bucket.ended := 0;
  bucket.last_end_us := 0;
  IF NOT bucket.is_concurrent THEN
    SELECT * INTO book FROM hold_book b WHERE b.bucket_key = bucket.bucket_key COLLATE "C";
  END IF;
  bucket.live := coalesce(book.live, 0);
  bucket.payment := coalesce(book.payment, 0);
  bucket.held_payment := coalesce(book.held_payment, 0);
  bucket.held_cost := coalesce(book.held_cost, 0);
  bucket.low_payments := coalesce(book.low_payments, '{}');
  bucket.lows := coalesce(book.lows, '{}');
  IF bucket.live > 0 OR bucket.is_concurrent THEN bucket := end_holds_v1(bucket, ends_max, now_us); END IF;
  IF bucket.is_concurrent THEN
    SELECT count(*) INTO bucket.live FROM hold h WHERE h.bucket_key = bucket.bucket_key COLLATE "C";
  END IF;
  RETURN bucket;
END $$;

-- Brings a bucket up to this time for a group; reads its holds, unless the call has done so before.
CREATE OR REPLACE FUNCTION open_held_v1(bucket held_bucket_v1, key text, ends_max bigint, now_us bigint)
RETURNS held_bucket_v1 LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  micros CONSTANT bigint := 1000000;
  state bigint[];
BEGIN
  bucket.is_damaged := false;
  bucket.is_redated := false;
  IF bucket.bucket_key IS NULL THEN
    bucket.bucket_key := key;
    bucket := read_held_v1(bucket, ends_max, now_us);
    bucket.is_redated := bucket.ended > 0;
  END IF;
  IF bucket.is_concurrent THEN
    bucket.at_us := 0;
    bucket.used := bucket.live * micros;
    bucket.previous := 0;
  END IF;
  state := held_step_v1(bucket, 'open', 0, 0, now_us);
  IF state IS NULL THEN
    bucket.is_damaged := true;
    bucket.at_us := 0;
    bucket.used := 0;
    bucket.previous := 0;
    state := held_step_v1(bucket, 'open', 0, 0, now_us);
  END IF;
  bucket.is_redated := bucket.is_redated OR state[4] = 1;
  bucket.at_us := state[1];
  bucket.used := state[2];
  bucket.previous := state[3];
  RETURN bucket;
END $$;

-- Writes the book of a bucket, if it has holds.
CREATE OR REPLACE FUNCTION write_hold_book_v1(bucket held_bucket_v1) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF bucket.is_concurrent THEN RETURN; END IF;
  IF bucket.live = 0 THEN
    DELETE FROM hold_book b WHERE b.bucket_key = bucket.bucket_key COLLATE "C";
    RETURN;
  END IF;
  INSERT INTO hold_book VALUES (
    bucket.bucket_key, bucket.live, bucket.payment, bucket.held_payment, bucket.held_cost, bucket.low_payments, bucket.lows
  ) ON CONFLICT (bucket_key) DO UPDATE SET
    live = excluded.live, payment = excluded.payment, held_payment = excluded.held_payment, held_cost = excluded.held_cost,
    low_payments = excluded.low_payments, lows = excluded.lows;
END $$;
