-- The register of processes (src/stores/postgres/process-register.ts).

-- Processes, each with what all others read of it, and threads that are counted; when each was last heard of; and a longer report for those
-- who ask.
CREATE TABLE IF NOT EXISTS runtime_process (
  prefix text COLLATE "C",
  id text COLLATE "C",
  report text NOT NULL,
  seen_at timestamptz NOT NULL,
  published text,
  PRIMARY KEY (prefix, id)
);
