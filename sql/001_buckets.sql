-- Tables. Names stand without a schema: whoever runs this sets search_path to the one that Headgate has to itself.
-- Times are microseconds since the Unix epoch, counts and debts whole numbers below 2^53.

-- One row per bucket that was ever paid and still means something. What at_us, used and previous mean is said by each
-- algorithm's function; all three 0 mean the same as no row. Keys are ASCII: other bytes stand as % and two hex digits.
CREATE TABLE IF NOT EXISTS bucket (
  bucket_key text COLLATE "C" PRIMARY KEY,
  at_us bigint NOT NULL,
  used bigint NOT NULL,
  previous bigint NOT NULL,
  -- The row means nothing from then on. Rounded up to some 17 s, so that most updates leave this index alone.
  expires_us bigint NOT NULL
) WITH (fillfactor = 50);

CREATE INDEX IF NOT EXISTS bucket_expires ON bucket (expires_us ASC);

-- Payments of sliding logs, oldest first by at_us and then entry.
CREATE TABLE IF NOT EXISTS log_entry (
  bucket_key text COLLATE "C" NOT NULL,
  at_us bigint NOT NULL,
  entry bigint NOT NULL,
  cost bigint NOT NULL,
  PRIMARY KEY (bucket_key, at_us, entry)
);

-- Processes that share these buckets, and when each was last heard of.
CREATE TABLE IF NOT EXISTS process (
  process_id text COLLATE "C" PRIMARY KEY,
  seen_at timestamptz NOT NULL
);
