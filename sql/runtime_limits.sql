-- Limits at run time (src/stores/postgres/runtime-store.ts). Processes with the same prefix of keys share them. The row whose key is empty is
-- the head: the version of the last change, and as its mark the sum of all marks modulo 2^48.

CREATE TABLE IF NOT EXISTS runtime_limit (
  prefix text COLLATE "C",
  key text COLLATE "C",
  version bigint NOT NULL,
  at_us bigint NOT NULL,
  mark bigint NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (prefix, key)
);

CREATE INDEX IF NOT EXISTS runtime_limit_version ON runtime_limit (prefix, version);

-- Writes changes as one. `old_version` and `old_sum` are the head whose sum becomes `new_sum`, or null. expected_us: at_us of what has to be
-- there, 0 for nothing, null for anything older. An empty value drops what is there.
-- reply  the head; then for each change 'written', 'full', or 'conflict ' and what is there. As lua/runtime_limits.lua.
CREATE OR REPLACE FUNCTION write_runtime_limits(
  of_prefix text, limits_max bigint, old_version bigint, old_sum bigint, new_sum bigint,
  keys text[], expected_us bigint[], new_us bigint[], marks bigint[], new_values text[]
) RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  head runtime_limit;
  known runtime_limit;
  reply text[] := ARRAY[''];
  now_us bigint := extract(epoch FROM clock_timestamp()) * 1000000;
BEGIN
  INSERT INTO runtime_limit VALUES (of_prefix, '', 0, 0, 0, '') ON CONFLICT DO NOTHING;
  SELECT * INTO head FROM runtime_limit l WHERE l.prefix = of_prefix AND l.key = '' FOR UPDATE;
  IF head.version = old_version AND head.mark = old_sum THEN
    head.version := greatest(head.version + 1, now_us);
    head.mark := new_sum;
  END IF;
  FOR i IN 1 .. cardinality(keys) LOOP
    known := NULL;
    SELECT * INTO known FROM runtime_limit l WHERE l.prefix = of_prefix AND l.key = keys[i];
    IF (expected_us[i] IS NULL AND (new_us[i], marks[i]) <= (coalesce(known.at_us, 0), coalesce(known.mark, 0)))
      OR expected_us[i] <> coalesce(known.at_us, 0) THEN
      reply := reply || ('conflict ' || coalesce(known.at_us || ' ' || known.mark || ' ' || known.value, ''));
    ELSIF known.at_us IS NULL AND expected_us[i] IS NOT NULL
      AND (SELECT count(*) FROM runtime_limit l WHERE l.prefix = of_prefix) > limits_max THEN
      reply := reply || 'full'::text;
    ELSE
      head.version := greatest(head.version + 1, now_us);
      head.mark := (head.mark - coalesce(known.mark, 0) + (1::bigint << 48)) % (1::bigint << 48);
      IF new_values[i] = '' THEN
        DELETE FROM runtime_limit l WHERE l.prefix = of_prefix AND l.key = keys[i];
      ELSE
        head.mark := (head.mark + marks[i]) % (1::bigint << 48);
        INSERT INTO runtime_limit VALUES (of_prefix, keys[i], head.version, new_us[i], marks[i], new_values[i])
        ON CONFLICT (prefix, key) DO UPDATE SET
          version = excluded.version, at_us = excluded.at_us, mark = excluded.mark, value = excluded.value;
      END IF;
      reply := reply || 'written'::text;
    END IF;
  END LOOP;
  UPDATE runtime_limit l SET version = head.version, mark = head.mark WHERE l.prefix = of_prefix AND l.key = '';
  reply[1] := head.version || ' ' || head.mark;
  RETURN reply;
END $$;
