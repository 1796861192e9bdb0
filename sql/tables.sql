-- Tables. Names have no schema: callers set search_path to the one that Headgate has to itself.
-- Times are microseconds since the Unix epoch, counts and debts whole numbers below 2^53.

-- One row per bucket that was ever paid and still means something. What at_us, used and previous mean is said by each
-- algorithm in src/engine/algorithms; all three 0 mean the same as no row. Keys are ASCII: other bytes are written as \x and two hex digits.
CREATE TABLE IF NOT EXISTS bucket (
  bucket_key text COLLATE "C" PRIMARY KEY,
  at_us bigint NOT NULL,
  used bigint NOT NULL,
  previous bigint NOT NULL,
  -- The row means nothing from then on. Rounded up to some 17 s, so that most updates leave this index alone.
  expires_us bigint NOT NULL,
  -- What is no number: the payments of a sliding log (src/engine/algorithms/log-state.ts), the open holds (hold-book.ts), or null.
  packed text
) WITH (fillfactor = 50);

-- Compressing costs more than the bytes.
ALTER TABLE bucket ALTER COLUMN packed SET STORAGE EXTERNAL;

CREATE INDEX IF NOT EXISTS bucket_expires ON bucket (expires_us ASC);

-- Ids of settled holds, each with its bucket's key, until they are forgotten. A transaction that writes one has locked or made the bucket's row.
CREATE TABLE IF NOT EXISTS settled_hold (
  name text COLLATE "C" PRIMARY KEY,
  until_us bigint NOT NULL
);

CREATE INDEX IF NOT EXISTS settled_hold_until ON settled_hold (until_us ASC);
