// The statements of takes. sql/ says what the functions mean.

/** Pays plain takes; waits for rows as long as the session's lock_timeout. */
export const TAKE_EACH = {
  name: "take_each",
  text: "SELECT * FROM take_each($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint)",
} as const;

export const LOCK_BUCKETS = {
  name: "lock_buckets",
  text: "SELECT * FROM lock_buckets($1::text[], $2::boolean, $3::bigint)",
} as const;
export const WRITE_BUCKETS = {
  name: "write_buckets",
  text: `SELECT write_buckets($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::int, $8::bigint)`,
} as const;
export const READ_SETTLED = {
  name: "read_settled",
  text: "SELECT name, until_us FROM settled_hold WHERE name = ANY ($1::text[])",
} as const;
export const WRITE_SETTLED = {
  name: "write_settled",
  text: `INSERT INTO settled_hold SELECT * FROM unnest($1::text[], $2::bigint[]) ORDER BY 1
    ON CONFLICT (name) DO UPDATE SET until_us = excluded.until_us`,
} as const;
