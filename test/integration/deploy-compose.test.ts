// The compose set-up, and what the file for PostgreSQL makes of it when it is laid over: its parts fit each other and Headgate.

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { readSettings } from "../../src/settings/settings.ts";
import { SETTINGS } from "../../src/settings/table.ts";

const COMPOSE = resolve(import.meta.dirname, "../../deploy/compose");
const RESET = { reset: true };

interface Service {
  readonly build?: { readonly context: string; readonly dockerfile: string };
  readonly volumes?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, object>>;
  readonly secrets?: readonly string[];
  readonly read_only?: boolean;
}

const textOf = (name: string) => readFileSync(join(COMPOSE, name), "utf8");

/** The file as Compose reads it: `!reset` takes a value away, `!override` replaces what would be merged. */
function read(name: string): { services: Record<string, Service>; secrets?: Record<string, { file: string }> } {
  const customTags = [
    { tag: "!reset", resolve: () => RESET },
    { tag: "!override", collection: "map" as const, resolve: (map: object) => Object.assign(map, { flow: true }) },
  ];
  return parse(textOf(name), { customTags });
}

const base = read("compose.yaml").services;
const over = read("postgres.yaml");

test("mounts and builds from files that are there, and waits for services that it has", () => {
  for (const [name, { volumes, depends_on, build }] of Object.entries(base)) {
    for (const volume of volumes ?? []) {
      expect(existsSync(join(COMPOSE, volume.split(":")[0] ?? "")), `${name}: ${volume}`).toBe(true);
    }
    expect(Object.keys(base)).toEqual(expect.arrayContaining(Object.keys(depends_on ?? {})));
    for (const { context, dockerfile } of build === undefined ? [] : [build]) {
      expect(existsSync(join(COMPOSE, context, dockerfile)), name).toBe(true);
    }
  }
});

test("gives Headgate settings that it reads, with a root that nobody writes", () => {
  const { environment, read_only } = base.headgate as Service;
  const settings = readSettings(environment ?? {});
  expect(settings.warnings).toEqual([]);
  expect(settings.redis).toMatchObject({ address: { host: "redis", port: 6379 } });
  expect(read_only).toBe(true);
});

test("has Envoy and Prometheus call services by the names and ports that these have", () => {
  const addresses = [...textOf("envoy.yaml").matchAll(/address: ([a-z]+), port_value: (\d+)/g)];
  expect(Object.fromEntries(addresses.map(([, host, port]) => [host, Number(port)]))).toEqual({
    upstream: 8000,
    headgate: SETTINGS.grpcPort.default,
  });
  const { scrape_configs: jobs } = parse(textOf("prometheus.yaml")) as {
    scrape_configs: { job_name: string; dns_sd_configs?: { names: string[]; port: number }[] }[];
  };
  expect(jobs.find(({ job_name }) => job_name === "headgate")?.dns_sd_configs).toMatchObject([
    { names: ["headgate"], port: SETTINGS.httpPort.default },
  ]);
});

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
