-- The lowest debt of a token bucket since a payment, as src/algorithms/debt-lows.ts keeps it, in millionths of a token.

-- A payment is about to be made on that debt.
CREATE OR REPLACE FUNCTION note_low_v1(bucket held_bucket_v1, debt bigint) RETURNS held_bucket_v1
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  lows_max CONSTANT int := 64;
  micros CONSTANT bigint := 1000000;
  kept int := cardinality(bucket.lows);
  nearest int := 1;
BEGIN
  bucket.payment := bucket.payment + 1;
  WHILE kept > 0 AND bucket.lows[kept] >= debt LOOP kept := kept - 1; END LOOP;
  bucket.low_payments := bucket.low_payments[:kept];
  bucket.lows := bucket.lows[:kept];
  IF coalesce(bucket.low_payments[kept], 0) > bucket.held_payment OR debt / micros >= bucket.held_cost THEN RETURN bucket; END IF;
  bucket.low_payments := bucket.low_payments || bucket.payment;
  bucket.lows := bucket.lows || debt;
  IF kept < lows_max THEN RETURN bucket; END IF;
  -- The two nearest lows become one: the lower of them.
  FOR i IN 2 .. kept LOOP
    IF bucket.lows[i + 1] - bucket.lows[i] < bucket.lows[nearest + 1] - bucket.lows[nearest] THEN nearest := i; END IF;
  END LOOP;
  bucket.low_payments := bucket.low_payments[:nearest - 1] || bucket.low_payments[nearest + 1:];
  bucket.lows := bucket.lows[:nearest] || bucket.lows[nearest + 2:];
  RETURN bucket;
END $$;

-- The place of the first low of a later payment; the number of lows plus 1 if there is none.
CREATE OR REPLACE FUNCTION first_low_after_v1(bucket held_bucket_v1, payment bigint) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT width_bucket($2, ($1).low_payments) + 1
$$;

-- That much of the payment is given back: without the payment, debt would have been lower by it ever since.
CREATE OR REPLACE FUNCTION take_off_lows_v1(bucket held_bucket_v1, payment bigint, debt bigint) RETURNS held_bucket_v1
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  first_low int := first_low_after_v1(bucket, payment);
BEGIN
  bucket.is_book_changed := true;
  IF first_low > cardinality(bucket.lows) THEN RETURN bucket; END IF;
  FOR i IN first_low .. cardinality(bucket.lows) LOOP bucket.lows[i] := greatest(0, bucket.lows[i] - debt); END LOOP;
  FOR i IN REVERSE first_low - 1 .. 1 LOOP
    CONTINUE WHEN bucket.lows[i] < bucket.lows[i + 1];
    bucket.low_payments := bucket.low_payments[:i - 1] || bucket.low_payments[i + 1:];
    bucket.lows := bucket.lows[:i - 1] || bucket.lows[i + 1:];
  END LOOP;
  RETURN bucket;
END $$;
