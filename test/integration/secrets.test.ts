// Secrets in every place that can hold one, everything failing that can, and nothing of them in anything that comes out:
// log, standard error, every page, metrics, gRPC errors, diagnostic reports. Real processes, real servers.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ConfigError } from "../../src/engine/base/errors.ts";
import { readSettings } from "../../src/process/settings.ts";
import { PROGRAM } from "../support/built-program.ts";
import { ownProcess } from "../support/child-processes.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { freePort, RedisServer } from "../support/redis-server.ts";
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
afterAll(async () => {
  await redis?.stop();
  await postgres?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Everything that came out of one service. */
interface Output {
  readonly text: string;
  readonly listened: boolean;
}

/** Runs the service with these settings, asks all it answers, has it write a report, ends it. */
async function runService(env: Readonly<Record<string, string>>): Promise<Output> {
  const reports = await mkdtemp(join(folder, "reports-"));
  const child = ownProcess(
    spawn(
      process.execPath,
      [`--report-directory=${reports}`, "--report-on-signal", "--report-uncaught-exception", ...PROGRAM, "serve"],
      {
        env: {
          PATH: process.env.PATH ?? "",
          HOST: "127.0.0.1",
          GRPC_HOST: "127.0.0.1",
          DEBUG_HOST: "127.0.0.1",
          PORT: "0",
          GRPC_PORT: "0",
          DEBUG_PORT: "0",
          SHUTDOWN_DELAY: "0s",
          SHUTDOWN_GRACE: "100ms",
          LOG_LEVEL: "trace",
          RULES_DIR: join(folder, "rules"),
          ADMIN_TOKEN: TOKEN,
          ...env,
        },
        stdio: ["ignore", "pipe", "pipe"],
      },
    ),
  );
  const pieces: string[] = [];
  child.stdout.on("data", (piece: Buffer) => pieces.push(piece.toString()));
  child.stderr.on("data", (piece: Buffer) => pieces.push(piece.toString()));
  const ports = await listening(child, pieces);
  if (ports !== undefined) {
    pieces.push(...(await askEverything(ports)));
    child.kill("SIGUSR2");
    await untilReported(reports);
    child.kill("SIGTERM");
  }
  if (child.exitCode === null) await once(child, "exit");
  for (const name of await readdir(reports)) pieces.push(await readFile(join(reports, name), "utf8"));
  return { text: pieces.join("\n"), listened: ports !== undefined };
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
  for (const path of [
    "/",
    "/livez",
    "/readyz",
    "/healthcheck",
    "/config",
    "/rlconfig",
    "/metrics",
    "/access",
    "/nothing",
  ])
    await fetched(base + path);
  for (const path of ["/", "/stats", "/rlconfig"]) await fetched(`http://127.0.0.1:${debug}${path}`);
  const body = JSON.stringify(call);
  await fetched(`${base}/json`, { method: "POST", body });
  for (const authorization of [`Bearer ${TOKEN}`, "", `Bearer ${TOKEN}x`])
    await fetched(`${base}/state`, { headers: { authorization } });
  for (const path of ["/explain", "/buckets/peek", "/buckets/reset"]) {
    // The right token, none, and one that is nearly right.
    for (const authorization of [`Bearer ${TOKEN}`, "", `Bearer ${TOKEN}x`])
      await fetched(base + path, { method: "POST", body, headers: { authorization } });
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
const FAILURES: readonly { name: string; env: () => Readonly<Record<string, string>>; says: RegExp }[] = [
  {
    name: "a wrong password for Redis",
    env: () => ({ REDIS_URL: `127.0.0.1:${redis.port}`, REDIS_AUTH: PASSWORD }),
    says: /password/,
  },
  {
    name: "a wrong user and password in a Redis URL",
    env: () => ({ REDIS_URL: `redis://somebody:${ENCODED}@127.0.0.1:${redis.port}` }),
    says: /password/,
  },
  {
    name: "a wrong password for Redis from a file",
    env: () => ({ REDIS_URL: `127.0.0.1:${redis.port}`, REDIS_AUTH_FILE: here("password") }),
    says: /password/,
  },
  {
    name: "a Redis that is not there",
    env: () => ({ REDIS_URL: `redis://:${ENCODED}@127.0.0.1:${closedPort}/3` }),
    says: /refuse|listens/i,
  },
  {
    name: "a Redis behind TLS that speaks none",
    env: () => ({ REDIS_URL: `rediss://:${ENCODED}@127.0.0.1:${redis.port}` }),
    says: /TLS/,
  },
  {
    name: "sentinels that are none",
    env: () => ({
      REDIS_URL: `redis-sentinel://:${ENCODED}@127.0.0.1:${redis.port}/main?sentinel_password=${ENCODED}`,
      LOG_FORMAT: "text",
    }),
    says: /sentinel/i,
  },
  {
    name: "a cluster that is none",
    env: () => ({ REDIS_URL: `redis-cluster://:${ENCODED}@127.0.0.1:${redis.port}` }),
    says: /cluster|password/i,
  },
  {
    name: "workers that all have a wrong password",
    env: () => ({ WORKERS: "2", REDIS_URL: `redis://:${ENCODED}@127.0.0.1:${redis.port}` }),
    says: /password/,
  },
  {
    name: "a second Redis with a wrong password",
    env: () => ({
      REDIS_URL: `127.0.0.1:${closedPort}`,
      REDIS_PERSECOND: "true",
      REDIS_PERSECOND_URL: `127.0.0.1:${redis.port}`,
      REDIS_PERSECOND_AUTH: PASSWORD,
    }),
    says: /password|refuse/,
  },
  {
    name: "a wrong password for PostgreSQL",
    env: () => ({ POSTGRES_URL: `postgres://careful:${ENCODED}@127.0.0.1:${postgres.port}/postgres` }),
    says: /password/,
  },
  {
    name: "a wrong password for PostgreSQL from a setting",
    env: () => ({
      POSTGRES_URL: `postgres://careful@127.0.0.1:${postgres.port}/postgres`,
      POSTGRES_PASSWORD: PASSWORD,
      LOG_FORMAT: "text",
    }),
    says: /password/,
  },
  {
    name: "a PostgreSQL that is not there",
    env: () => ({ POSTGRES_URL: `postgres://careful:${ENCODED}@127.0.0.1:${closedPort}/postgres` }),
    says: /refuse|listens/i,
  },
  {
    name: "a token file in place of a token",
    env: () => ({ ADMIN_TOKEN: "", ADMIN_TOKEN_FILE: here("tokens") }),
    says: /listening/,
  },
  {
    name: "a collector of traces that is not there",
    env: () => ({
      TRACING_ENABLED: "true",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${closedPort}`,
      OTEL_EXPORTER_OTLP_HEADERS: `authorization=${ENCODED}`,
      OTEL_BSP_SCHEDULE_DELAY: "1",
      OTEL_EXPORTER_OTLP_TIMEOUT: "100",
    }),
    says: /spans were lost/,
  },
  {
    name: "a collector that is spoken to by gRPC and is none",
    env: () => ({
      OTEL_TRACES_EXPORTER: "otlp",
      OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `http://127.0.0.1:${redis.port}`,
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: `authorization=${encodeURIComponent(TOKEN)}`,
      OTEL_BSP_SCHEDULE_DELAY: "1",
      LOG_FORMAT: "text",
    }),
    says: /spans were lost/,
  },
];

// Promise(input): The process shows no secret, whatever fails.
test.concurrent.each(FAILURES)(
  "with $name the service says what is wrong and no secret",
  async ({ env, says }) => {
    const output = await runService(env());
    expect(output.text).toMatch(says);
    expect(leaks(output)).toEqual([]);
  },
  120_000,
);

const MISTAKES: readonly { name: string; env: () => Readonly<Record<string, string>> }[] = [
  { name: "REDIS_URL of another kind", env: () => ({ REDIS_URL: `ftp://user:${ENCODED}@host` }) },
  { name: "REDIS_URL with a broken escape", env: () => ({ REDIS_URL: `redis://:%${MARK}@host` }) },
  { name: "REDIS_URL with a port that is none", env: () => ({ REDIS_URL: `redis://:${ENCODED}@host:${MARK}` }) },
  {
    name: "REDIS_URL and REDIS_AUTH both with a password",
    env: () => ({ REDIS_URL: `redis://:${ENCODED}@host`, REDIS_AUTH: PASSWORD }),
  },
  { name: "REDIS_URL with unknown parameters", env: () => ({ REDIS_URL: `redis://host?password=${MARK}` }) },
  { name: "POSTGRES_URL without a user", env: () => ({ POSTGRES_URL: `postgres://:${ENCODED}@host/db` }) },
  { name: "POSTGRES_URL that is no URL", env: () => ({ POSTGRES_URL: `host=db password=${MARK}` }) },
  {
    name: "passwords of several lines",
    env: () => ({ REDIS_URL: "host", REDIS_AUTH: `${MARK}\n${MARK}`, POSTGRES_PASSWORD: `${MARK}\n${MARK}` }),
  },
  { name: "ADMIN_TOKEN with blanks", env: () => ({ ADMIN_TOKEN: `${MARK} with blanks inside` }) },
  {
    name: "a collector's URL with a password",
    env: () => ({ TRACING_ENABLED: "true", OTEL_EXPORTER_OTLP_ENDPOINT: `http://me:${ENCODED}@collector:4318` }),
  },
  {
    name: "a collector's headers that are none",
    env: () => ({ TRACING_ENABLED: "true", OTEL_EXPORTER_OTLP_HEADERS: `${MARK}, authorization=%zz${MARK}` }),
  },
  { name: "a name that nearly is one", env: () => ({ REDIS_AUHT: PASSWORD, PORT: "none" }) },
];

test.each(MISTAKES)("settings that can't be used for $name are named without their text", ({ env }) => {
  const text = `${refusalOf(() => readSettings(env()))}`;
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
    name: "a key that is none",
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
  const env = {
    REDIS_URL: `redis://:${ENCODED}@127.0.0.1:${closedPort}`,
    NODE_OPTIONS: `--import=${crash}`,
    GRPC_PORT: "0",
    SHUTDOWN_GRACE: "10s",
  };
  const reports = await mkdtemp(join(folder, "crash-"));
  const child = ownProcess(
    spawn(process.execPath, ["--report-uncaught-exception", `--report-directory=${reports}`, ...PROGRAM, "serve"], {
      env: {
        PATH: process.env.PATH ?? "",
        HOST: "127.0.0.1",
        GRPC_HOST: "127.0.0.1",
        PORT: "0",
        RULES_DIR: join(folder, "rules"),
        ADMIN_TOKEN: TOKEN,
        ...env,
      },
      stdio: ["ignore", "pipe", "pipe"],
    }),
  );
  const pieces: string[] = [];
  child.stdout.on("data", (piece: Buffer) => pieces.push(piece.toString()));
  child.stderr.on("data", (piece: Buffer) => pieces.push(piece.toString()));
  await once(child, "exit");
  const names = await readdir(reports);
  expect(names).toHaveLength(1);
  for (const name of names) pieces.push(await readFile(join(reports, name), "utf8"));
  const text = pieces.join("\n");
  expect(text).toContain("an accident");
  expect(leaks({ text, listened: true })).toEqual([]);
}, 60_000);
