// The compose set-up with PostgreSQL: what its file makes of the one it is laid over, and that Headgate reads the result.

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { readSettings } from "../../src/process/settings.ts";

const COMPOSE = resolve(import.meta.dirname, "../../deploy/compose");
const RESET = { reset: true };

interface Service {
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, object>>;
  readonly secrets?: readonly string[];
  readonly read_only?: boolean;
}

/** The file as Compose reads it: `!reset` takes a value away, `!override` replaces what would be merged. */
function read(name: string): { services: Record<string, Service>; secrets?: Record<string, { file: string }> } {
  const customTags = [
    { tag: "!reset", resolve: () => RESET },
    { tag: "!override", collection: "map" as const, resolve: (map: object) => Object.assign(map, { flow: true }) },
  ];
  return parse(readFileSync(join(COMPOSE, name), "utf8"), { customTags });
}

const base = read("compose.yaml").services;
const over = read("postgres.yaml");

test("Headgate keeps its buckets in PostgreSQL alone, with a password from a file that is there", () => {
  const merged = { ...base.headgate?.environment, ...over.services.headgate?.environment };
  const [name = ""] = over.services.headgate?.secrets ?? [];
  const file = join(COMPOSE, over.secrets?.[name]?.file ?? "");
  expect(existsSync(file)).toBe(true);
  const kept = Object.entries(merged).filter(([, value]) => (value as unknown) !== RESET);
  const env = Object.fromEntries(kept.map(([key, value]) => [key, value.replace(`/run/secrets/${name}`, file)]));
  const settings = readSettings(env);
  expect(settings.warnings).toEqual([]);
  expect(settings.postgres).toMatchObject({ host: "postgres", port: 5432, user: "headgate", passwordFile: file });
  expect(settings.redis).toBeUndefined();
});

test("the server and Headgate read the same password, and nothing waits for the Redis that is gone", () => {
  const { headgate, postgres, redis } = over.services;
  expect(redis).toBe(RESET);
  expect(postgres?.secrets).toEqual(headgate?.secrets);
  expect(postgres?.environment).toMatchObject({
    POSTGRES_USER: "headgate",
    POSTGRES_DB: "headgate",
    POSTGRES_PASSWORD_FILE: headgate?.environment?.POSTGRES_PASSWORD_FILE,
  });
  expect(Object.keys(headgate?.depends_on ?? {})).toEqual(["postgres"]);
  const waiting = Object.entries(base).filter(
    ([name, { depends_on }]) => name !== "headgate" && "redis" in (depends_on ?? {}),
  );
  expect(waiting).toEqual([]);
});
