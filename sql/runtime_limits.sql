-- Limits at run time (src/stores/postgres/runtime-store.ts). Processes with the same prefix of keys share them.

CREATE TABLE IF NOT EXISTS runtime_head (
  prefix text COLLATE "C" PRIMARY KEY,
  epoch text NOT NULL,
  version bigint NOT NULL,
  count bigint NOT NULL,
  -- Of the last change.
  at_us bigint NOT NULL
);

CREATE TABLE IF NOT EXISTS runtime_limit (
  prefix text COLLATE "C",
  key text COLLATE "C",
  at_us bigint NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (prefix, key)
);

-- The newest changes.
CREATE TABLE IF NOT EXISTS runtime_event (
  prefix text COLLATE "C",
  version bigint,
  at_us bigint NOT NULL,
  key text COLLATE "C" NOT NULL,
  value text NOT NULL,
  before text NOT NULL,
  PRIMARY KEY (prefix, version)
);

CREATE INDEX IF NOT EXISTS runtime_event_key ON runtime_event (prefix, key, version DESC);

-- Writes changes as one. `lost_head` is the head that is to get another epoch, or null. expected_us: at_us of what has to be there, 0 for
-- nothing, null for anything older. new_us: at_us, or null for now. An empty value drops what is there.
-- reply  the head; then for each change: 'written ' and its at_us, 'conflict ' and what is there, or 'full'. As lua/runtime_limits.lua.
CREATE OR REPLACE FUNCTION write_runtime_limits(
  of_prefix text, new_epoch text, limits_max bigint, events_max bigint, lost_head text,
  keys text[], new_values text[], expected_us bigint[], new_us bigint[]
) RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  head runtime_head;
  known runtime_limit;
  reply text[] := ARRAY[''];
  own_us bigint;
BEGIN
  INSERT INTO runtime_head VALUES (
    of_prefix,
    new_epoch,
    -- Not a version that the history has already.
    (SELECT coalesce(max(e.version), 0) FROM runtime_event e WHERE e.prefix = of_prefix),
    (SELECT count(*) FROM runtime_limit l WHERE l.prefix = of_prefix),
    coalesce((SELECT e.at_us FROM runtime_event e WHERE e.prefix = of_prefix ORDER BY e.version DESC LIMIT 1), 0)
  ) ON CONFLICT DO NOTHING;
  SELECT * INTO head FROM runtime_head h WHERE h.prefix = of_prefix FOR UPDATE;
  IF lost_head = head.epoch || ' ' || head.version || ' ' || head.count || ' ' || head.at_us THEN
    head.epoch := new_epoch;
    SELECT count(*) INTO head.count FROM runtime_limit l WHERE l.prefix = of_prefix;
  END IF;
  FOR i IN 1 .. cardinality(keys) LOOP
    known := NULL;
    SELECT * INTO known FROM runtime_limit l WHERE l.prefix = of_prefix AND l.key = keys[i];
    own_us := coalesce(
      new_us[i],
      greatest(extract(epoch FROM clock_timestamp()) * 1000000, coalesce(known.at_us, 0) + 1)
    );
    IF (expected_us[i] IS NULL AND own_us <= coalesce(known.at_us, 0)) OR expected_us[i] <> coalesce(known.at_us, 0) THEN
      reply := reply || ('conflict ' || coalesce(known.at_us || ' ' || known.value, ''));
    ELSIF new_values[i] = '' THEN
      DELETE FROM runtime_limit l WHERE l.prefix = of_prefix AND l.key = keys[i];
      IF FOUND THEN head.count := head.count - 1; END IF;
      reply := reply || ('written ' || coalesce(known.at_us, 0));
    ELSIF known.at_us IS NULL AND head.count >= limits_max THEN
      reply := reply || 'full'::text;
    ELSE
      head.version := head.version + 1;
      head.at_us := own_us;
      IF known.at_us IS NULL THEN head.count := head.count + 1; END IF;
      INSERT INTO runtime_limit VALUES (of_prefix, keys[i], own_us, new_values[i])
      ON CONFLICT (prefix, key) DO UPDATE SET at_us = excluded.at_us, value = excluded.value;
      INSERT INTO runtime_event VALUES (of_prefix, head.version, own_us, keys[i], new_values[i], coalesce(known.value, ''));
      reply := reply || ('written ' || own_us);
    END IF;
  END LOOP;
  DELETE FROM runtime_event e WHERE e.prefix = of_prefix AND e.version <= head.version - events_max;
  UPDATE runtime_head h SET epoch = head.epoch, version = head.version, count = head.count, at_us = head.at_us
  WHERE h.prefix = of_prefix;
  reply[1] := head.epoch || ' ' || head.version || ' ' || head.count || ' ' || head.at_us;
  RETURN reply;
END $$;
