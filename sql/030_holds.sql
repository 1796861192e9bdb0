-- Payments that wait for their settlement. src/algorithms/holds.ts says what they do to their bucket. Whoever changes a bucket's
-- rows here has locked the row in `bucket`, which exists as long as the bucket has holds. Only the sweep deletes from
-- `settled_hold` without that lock.

CREATE TABLE IF NOT EXISTS hold (
  bucket_key text COLLATE "C" NOT NULL,
  -- When it is given back if nobody settles it. Holds that end together are given back in the order of their numbers.
  ends_us bigint NOT NULL,
  number bigint GENERATED ALWAYS AS IDENTITY,
  -- Null if it has no id.
  hold_id text COLLATE "C",
  cost bigint NOT NULL,
  paid_us bigint NOT NULL,
  -- The number of its payment, as hold_book counts them.
  payment bigint NOT NULL,
  PRIMARY KEY (bucket_key, ends_us, number)
);

CREATE UNIQUE INDEX IF NOT EXISTS hold_of_id ON hold (bucket_key, hold_id);

-- Settled holds, until they are forgotten.
CREATE TABLE IF NOT EXISTS settled_hold (
  bucket_key text COLLATE "C" NOT NULL,
  hold_id text COLLATE "C" NOT NULL,
  until_us bigint NOT NULL,
  PRIMARY KEY (bucket_key, hold_id)
);

CREATE INDEX IF NOT EXISTS settled_hold_until ON settled_hold (until_us ASC);

-- A row for each bucket with holds, except those that count holds. All columns but `live` are for token buckets
-- (031_debt_lows.sql).
CREATE TABLE IF NOT EXISTS hold_book (
  bucket_key text COLLATE "C" PRIMARY KEY,
  -- How many holds there are.
  live bigint NOT NULL,
  -- Numbers of the last payment and of the last payment that opened a hold, counted since the bucket had no hold.
  payment bigint NOT NULL,
  held_payment bigint NOT NULL,
  -- What all holds have paid together.
  held_cost bigint NOT NULL,
  -- Numbers of payments and the debt before each, both rising.
  low_payments bigint[] NOT NULL,
  lows bigint[] NOT NULL
) WITH (fillfactor = 50);

-- A bucket with holds while a call works on it: its key, the take's limit, its state as the algorithm's function has it, its
-- book, and the result of the last settlement: what was held (-1: no such hold, -2: already settled), and the hits that the
-- state could not hold.
DO $$ BEGIN
  CREATE TYPE held_bucket_v1 AS (
    bucket_key text,
    algorithm bigint, amount bigint, tick_us bigint,
    limit_numbers bigint[], -- as step takes them
    hold_us bigint, -- how long holds last
    is_concurrent boolean, -- it counts holds
    at_us bigint, used bigint, previous bigint,
    live bigint, payment bigint, held_payment bigint, held_cost bigint, low_payments bigint[], lows bigint[],
    is_book_changed boolean,
    is_damaged boolean, -- the saved numbers made no sense
    is_redated boolean, -- time has changed it for good: it was dated anew, or holds have ended
    ended bigint, -- how many holds have ended
    last_end_us bigint, -- when the last hold that this call opened ends
    found bigint, capped bigint
  );
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;
