-- The register of processes (src/stores/postgres/process-register.ts).

-- Processes, each with the report that all others read, when it was last heard of, and a longer report for those who ask. Some are only
-- counted (src/stores/batching/process-count.ts).
CREATE TABLE IF NOT EXISTS runtime_process (
  prefix text COLLATE "C",
  id text COLLATE "C",
  report text NOT NULL,
  seen_at timestamptz NOT NULL,
  published text,
  PRIMARY KEY (prefix, id)
);
