// Secrets in every place that can hold one, everything failing that can, and nothing of them in anything that comes out:
// log, standard error, every page, metrics, gRPC errors, diagnostic reports. Real processes, real servers.

import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { ConfigError } from "../../src/base/errors.ts";
import { readSettings } from "../../src/settings/settings.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { freePort, RedisServer } from "../support/redis-server.ts";
import { spawnService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { askOnce, openClient } from "../support/test-app.ts";

/** In every secret, and in nothing else: whatever form it comes out in, unless it is encoded as a whole, this shows. */
const MARK = "Sesame7Open";
const PASSWORD = `p:${MARK}/@#%&"' \\x`;
const ENCODED = encodeURIComponent(PASSWORD).replace("%2F", "%2f");
const TOKEN = `${MARK}-admin-token-0123456789`;
const RULES = `domain: edge
descriptors: [{ key: k, on_store_failure: error, rate_limit: { requests_per_unit: 5, unit: minute } }]
`;
/** How long one service may take until it listens or ends. */
const START_MS = 90_000;

let folder: string;
let redis: RedisServer;
let postgres: PostgresServer;
let closedPort: number;
beforeAll(async () => {
  folder = temporaryFolder("headgate-secrets");
  await mkdir(join(folder, "rules"));
  await writeFile(join(folder, "rules/edge.yaml"), RULES);
  await writeFile(join(folder, "password"), `${PASSWORD}\n`);
  await writeFile(join(folder, "tokens"), `alice ${TOKEN}\n`);
  await writeFile(join(folder, "key.pem"), `-----BEGIN PRIVATE KEY-----\n${MARK}${MARK}\n-----END PRIVATE KEY-----\n`);
  redis = await RedisServer.start(["--requirepass", "the-right-one"], "the-right-one");
  postgres = await PostgresServer.start();
  await postgres.query("CREATE ROLE careful LOGIN PASSWORD 'the-right-one'");
  const access = "host all careful 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nlocal all all trust\n";
  await writeFile(join(postgres.directory, "data/pg_hba.conf"), access);
  await postgres.query("SELECT pg_reload_conf()");
  closedPort = await freePort();
}, 60_000);

/** Everything that came out of one service. */
interface Output {
  readonly text: string;
  readonly listened: boolean;
}

/** Starts the service with these settings; `pieces` gets what it says, and `reports` a folder for its diagnostic reports. */
async function spawnWatched(env: Readonly<Record<string, string>>) {
  const reports = await mkdtemp(join(folder, "reports-"));
  const flags = [`--report-directory=${reports}`, "--report-on-signal", "--report-uncaught-exception"];
  const own = { DEBUG_PORT: "0", SHUTDOWN_GRACE: "100ms", LOG_LEVEL: "trace", RULES_DIR: join(folder, "rules") };
  const child = spawnService({ ...own, ADMIN_TOKEN: TOKEN, ...env }, { flags });
  const pieces: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (piece: Buffer) => pieces.push(piece.toString()));
  return { child, pieces, reports };
}

/** Everything that came out of a service, once it has ended. */
async function outputOf(
  { child, pieces, reports }: Awaited<ReturnType<typeof spawnWatched>>,
  listened = true,
): Promise<Output> {
  if (child.exitCode === null) await once(child, "exit");
  for (const name of await readdir(reports)) pieces.push(await readFile(join(reports, name), "utf8"));
  return { text: pieces.join("\n"), listened };
}

/** Runs the service with these settings, asks all it answers, has it write a report, ends it. */
async function runService(env: Readonly<Record<string, string>>): Promise<Output> {
  const service = await spawnWatched(env);
  const { child, pieces, reports } = service;
  const ports = await listening(child, pieces);
  if (ports !== undefined) {
    pieces.push(...(await askEverything(ports)));
    child.kill("SIGUSR2");
    await untilReported(reports);
    child.kill("SIGTERM");
  }
  return outputOf(service, ports !== undefined);
}

interface Ports {
  readonly grpc: number;
  readonly http: number;
  readonly debug: number;
}

/** Undefined if the service ends instead. */
async function listening(child: ChildProcess, pieces: readonly string[]): Promise<Ports | undefined> {
  for (let waitedMs = 0; waitedMs < START_MS && child.exitCode === null; waitedMs += 25) {
    const text = pieces.join("");
    const json = /"grpc":"[^"]*:(\d+)","http":"[^"]*:(\d+)".*"debug":(\d+)/.exec(text);
    const plain = /grpc=\S*:(\d+) http=\S*:(\d+).*debug=(\d+)/.exec(text);
    const [, grpc, http, debug] = json ?? plain ?? [];
    if (debug !== undefined) return { grpc: Number(grpc), http: Number(http), debug: Number(debug) };
    await sleep(25);
  }
  return undefined;
}

async function askEverything({ grpc, http, debug }: Ports): Promise<string[]> {
  const texts: string[] = [];
  const fetched = async (url: string, init?: RequestInit) => {
    const response = await fetch(url, init);
    texts.push(`${JSON.stringify([...response.headers])}${await response.text()}`);
  };
  const call = { domain: "edge", descriptors: [{ entries: [{ key: "k", value: "v" }] }] };
  const client = openClient(`127.0.0.1:${grpc}`);
  texts.push(await askOnce(client, call).then((reply) => JSON.stringify(reply), String));
  client.close();
  const base = `http://127.0.0.1:${http}`;
  const open = ["", "livez", "readyz", "healthcheck", "config", "rlconfig", "metrics", "access", "nothing"];
  for (const path of open) await fetched(`${base}/${path}`);
  for (const path of ["/", "/stats", "/rlconfig"]) await fetched(`http://127.0.0.1:${debug}${path}`);
  const post = { method: "POST", body: JSON.stringify(call) };
  await fetched(`${base}/json`, post);
  // The right token, none, and one that is nearly right.
  for (const authorization of [`Bearer ${TOKEN}`, "", `Bearer ${TOKEN}x`]) {
    for (const path of ["/state", "/top"]) await fetched(base + path, { headers: { authorization } });
    for (const path of ["/explain", "/buckets/peek", "/buckets/reset"])
      await fetched(base + path, { ...post, headers: { authorization } });
  }
  return texts;
}

async function untilReported(folder: string): Promise<void> {
  for (let waitedMs = 0; waitedMs < 5_000; waitedMs += 25) {
    const [name] = await readdir(folder);
    // The end of a report is written last.
    if (name !== undefined && (await readFile(join(folder, name), "utf8")).trimEnd().endsWith("}")) return;
    await sleep(25);
  }
  throw new Error("no diagnostic report was written");
}

/** The lines that hold a secret, in whatever form. */
function leaks({ text }: Output): string[] {
  const forms = [
    MARK,
    Buffer.from(PASSWORD).toString("base64"),
    Buffer.from(TOKEN).toString("base64"),
    Buffer.from(MARK).toString("hex"),
  ];
  return text.split("\n").filter((line) => forms.some((form) => line.includes(form)));
}

test("the search finds a secret where there is one", () => {
  expect(leaks({ text: `one\nurl redis://:${ENCODED}@host\nthree`, listened: true })).toHaveLength(1);
});

const here = (path: string) => join(folder, path);
const FAILURES: readonly (readonly [name: string, env: () => Readonly<Record<string, string>>, says: RegExp])[] = [
  ["a wrong password for Redis", () => ({ REDIS_URL: `127.0.0.1:${redis.port}`, REDIS_AUTH: PASSWORD }), /password/],
  [
    "a wrong user and password in a Redis URL",
    () => ({ REDIS_URL: `redis://somebody:${ENCODED}@127.0.0.1:${redis.port}` }),
    /password/,
  ],
  [
    "a wrong password for Redis from a file, and a token file in place of a token",
    () => ({
      REDIS_URL: `127.0.0.1:${redis.port}`,
      REDIS_AUTH_FILE: here("password"),
      ADMIN_TOKEN: "",
      ADMIN_TOKEN_FILE: here("tokens"),
    }),
    /password/,
  ],
  [
    "a Redis that is not there",
    () => ({ REDIS_URL: `redis://:${ENCODED}@127.0.0.1:${closedPort}/3` }),
    /refuse|listens/i,
  ],
  ["a Redis behind TLS that speaks none", () => ({ REDIS_URL: `rediss://:${ENCODED}@127.0.0.1:${redis.port}` }), /TLS/],
  [
    "a Redis server in place of sentinels",
    () => ({
      REDIS_URL: `redis-sentinel://:${ENCODED}@127.0.0.1:${redis.port}/main`,
      REDIS_SENTINEL_AUTH: PASSWORD,
      LOG_FORMAT: "text",
    }),
    /sentinel/i,
  ],
  [
    "a single Redis in place of a cluster",
    () => ({ REDIS_URL: `redis-cluster://:${ENCODED}@127.0.0.1:${redis.port}` }),
    /cluster|password/i,
  ],
  [
    "a second Redis with a wrong password",
    () => ({
      REDIS_URL: `127.0.0.1:${closedPort}`,
      REDIS_PERSECOND: "true",
      REDIS_PERSECOND_URL: `127.0.0.1:${redis.port}`,
      REDIS_PERSECOND_AUTH: PASSWORD,
    }),
    /password|refuse/,
  ],
  [
    "a wrong password for PostgreSQL",
    () => ({ POSTGRES_URL: `postgres://careful:${ENCODED}@127.0.0.1:${postgres.port}/postgres` }),
    /password/,
  ],
  [
    "a wrong password for PostgreSQL from a setting",
    () => ({
      POSTGRES_URL: `postgres://careful@127.0.0.1:${postgres.port}/postgres`,
      POSTGRES_PASSWORD: PASSWORD,
      LOG_FORMAT: "text",
    }),
    /password/,
  ],
  [
    "neither a PostgreSQL nor a collector of traces there",
    () => ({
      POSTGRES_URL: `postgres://careful:${ENCODED}@127.0.0.1:${closedPort}/postgres`,
      TRACING_ENABLED: "true",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${closedPort}`,
      OTEL_EXPORTER_OTLP_HEADERS: `authorization=${ENCODED}`,
      OTEL_EXPORTER_OTLP_TIMEOUT: "100",
    }),
    /(?=.*spans were lost).*refuses connections/s,
  ],
  [
    "a Redis server in place of a gRPC collector",
    () => ({
      OTEL_TRACES_EXPORTER: "otlp",
      OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${redis.port}`,
      OTEL_EXPORTER_OTLP_HEADERS: `authorization=${encodeURIComponent(TOKEN)}`,
      LOG_FORMAT: "text",
    }),
    /spans were lost/,
  ],
];

// Promise(input): The process shows no secret, whatever fails.
test.concurrent.each(FAILURES)(
  "with %s the service says what is wrong and no secret",
  async (_, env, says) => {
    const output = await runService(env());
    expect(output.text).toMatch(says);
    expect(leaks(output)).toEqual([]);
  },
  120_000,
);

const MISTAKES: readonly (readonly [name: string, env: Readonly<Record<string, string>>])[] = [
  ["REDIS_URL of another kind", { REDIS_URL: `ftp://user:${ENCODED}@host` }],
  ["REDIS_URL with a broken escape", { REDIS_URL: `redis://:%${MARK}@host` }],
  ["REDIS_URL with an invalid port", { REDIS_URL: `redis://:${ENCODED}@host:${MARK}` }],
  ["REDIS_URL and REDIS_AUTH both with a password", { REDIS_URL: `redis://:${ENCODED}@host`, REDIS_AUTH: PASSWORD }],
  ["REDIS_URL with unknown parameters", { REDIS_URL: `redis://host?password=${MARK}` }],
  ["POSTGRES_URL without a user", { POSTGRES_URL: `postgres://:${ENCODED}@host/db` }],
  ["POSTGRES_URL that is not a URL", { POSTGRES_URL: `host=db password=${MARK}` }],
  [
    "passwords of several lines",
    { REDIS_URL: "host", REDIS_AUTH: `${MARK}\n${MARK}`, POSTGRES_PASSWORD: `${MARK}\n${MARK}` },
  ],
  ["ADMIN_TOKEN with blanks", { ADMIN_TOKEN: `${MARK} with blanks inside` }],
  [
    "a collector's URL with a password",
    { TRACING_ENABLED: "true", OTEL_EXPORTER_OTLP_ENDPOINT: `http://me:${ENCODED}@collector:4318` },
  ],
  [
    "invalid headers of a collector",
    { TRACING_ENABLED: "true", OTEL_EXPORTER_OTLP_HEADERS: `${MARK}, authorization=%zz${MARK}` },
  ],
  ["a name that nearly is one", { REDIS_AUHT: PASSWORD, PORT: "none" }],
];

test.each(MISTAKES)("settings that can't be used for %s are named without their text", (_, env) => {
  const text = `${refusalOf(() => readSettings(env))}`;
  expect(text).toMatch(/CONFIG_SETTINGS/);
  expect(leaks({ text, listened: false })).toEqual([]);
});

function refusalOf(act: () => unknown): string {
  try {
    act();
    return "";
  } catch (error) {
    return error instanceof ConfigError ? `${error.code} ${error.message} ${error.stack}` : String(error);
  }
}

test.concurrent.each([
  { name: "a token file of nonsense", env: () => ({ ADMIN_TOKEN: "", ADMIN_TOKEN_FILE: here("key.pem") }) },
  {
    name: "an invalid key",
    env: () => ({
      GRPC_SERVER_USE_TLS: "true",
      GRPC_SERVER_TLS_CERT: here("key.pem"),
      GRPC_SERVER_TLS_KEY: here("key.pem"),
    }),
  },
])(
  "a start that fails for $name tells no secret",
  async ({ env }) => {
    const output = await runService(env());
    expect(output.listened).toBe(false);
    expect(output.text).toMatch(/CONFIG_/);
    expect(leaks(output)).toEqual([]);
  },
  120_000,
);

test("a crash leaves a report without secrets", async () => {
  const crash = join(folder, "crash.mjs");
  await writeFile(crash, `setTimeout(() => { throw new Error("an accident"); }, 2_500);\n`);
  const service = await spawnWatched({
    REDIS_URL: `redis://:${ENCODED}@127.0.0.1:${closedPort}`,
    NODE_OPTIONS: `--import=${crash}`,
    SHUTDOWN_GRACE: "10s",
  });
  const output = await outputOf(service);
  expect(await readdir(service.reports)).toHaveLength(1);
  expect(output.text).toContain("an accident");
  expect(leaks(output)).toEqual([]);
}, 60_000);
