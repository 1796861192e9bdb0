// Settings from the environment: defaults, mistakes all at once, secrets, what fits together, look-alikes.

import { describe, expect, test } from "vitest";
import {
  describeSettings,
  type Environment,
  readSettings,
  secretsOf,
  tableRows,
} from "../../../src/settings/settings.ts";
import {
  expectRead,
  expectRefused,
  mistakesOf,
  type ReadCases,
  type RefusedCases,
} from "../../support/settings-read.ts";

const REDIS = { REDIS_URL: "redis:6379" };
const POSTGRES = { POSTGRES_URL: "postgres://ann@db.example/limits" };
const XDS = { CONFIG_TYPE: "GRPC_XDS_SOTW" };
const COMPATIBLE = { COMPATIBILITY_MODE: "true" };
const BOTH = { ...POSTGRES, REDIS_URL: "redis.example" };
const postgresAt = (url: string) => ({ POSTGRES_URL: url });
const inPostgres = (postgres: object) => ({ backendType: "postgres", postgres });
const NEW_DEFAULTS = { onStoreFailure: "allow", ignoresDotFiles: true };
const NO_PORTS = { debugPort: undefined, prometheusAddress: undefined };
const OLD_DEFAULTS = { onStoreFailure: "error", ignoresDotFiles: false };

const READ: ReadCases = [
  ["no variable", {}, { httpPort: 8080, grpcPort: 8081, backendType: "memory", redis: undefined, warnings: [] }],
  ["no variable", {}, { rulesDir: expect.stringMatching(/deploy\/rules$/), readsEveryFile: false, readsFiles: true }],
  ["RULES_DIR before all", { RULES_DIR: "/a", RUNTIME_ROOT: "/b" }, { rulesDir: "/a", readsEveryFile: false }],
  [
    "the RUNTIME_ path",
    { RUNTIME_ROOT: "/b", RUNTIME_SUBDIRECTORY: "rl" },
    { rulesDir: "/b/rl/config", readsEveryFile: true },
  ],
  ["its own root", { RUNTIME_SUBDIRECTORY: "rl" }, { rulesDir: "/srv/runtime_data/current/rl/config" }],
  ["another app directory", { RUNTIME_ROOT: "/b", RUNTIME_APPDIRECTORY: "limits" }, { rulesDir: "/b/limits" }],
  ["one more family of headers", { LIMIT_RESPONSE_HEADERS_ENABLED: "true" }, { responseHeaders: ["ratelimit"] }],
  [
    "one that is there already",
    { LIMIT_RESPONSE_HEADERS_ENABLED: "1", RESPONSE_HEADERS: "x-ratelimit, ratelimit" },
    { responseHeaders: ["x-ratelimit", "ratelimit"] },
  ],
  ["a control plane, which sends all rules", XDS, { configType: "grpc_xds_sotw", readsFiles: false, debugPort: 6070 }],
  ["one next to a RUNTIME_ path", { ...XDS, RUNTIME_ROOT: "/data", RUNTIME_SUBDIRECTORY: "rl" }, { readsFiles: false }],
  ["one next to RULES_DIR", { ...XDS, RULES_DIR: "/rules" }, { readsFiles: true, rulesDir: "/rules" }],
  ["the compatibility mode", COMPATIBLE, OLD_DEFAULTS],
  [
    "its defaults overridden one by one",
    { ...COMPATIBLE, ON_STORE_FAILURE: "local" },
    { ...OLD_DEFAULTS, onStoreFailure: "local" },
  ],
  ["no compatibility mode", {}, NEW_DEFAULTS],
  ["no statsd by its host alone", { STATSD_HOST: "stats" }, { ...NO_PORTS, usesStatsd: false }],
  ["statsd by its host in that mode", { ...COMPATIBLE, STATSD_HOST: "stats" }, { usesStatsd: true, debugPort: 6070 }],
  [
    "no statsd where it is turned off",
    { ...COMPATIBLE, STATSD_HOST: "stats", USE_STATSD: "false", DEBUG_PORT: "7000" },
    { usesStatsd: false, debugPort: 7_000, prometheusAddress: undefined },
  ],
  ["the mode's port of metrics", { ...COMPATIBLE, USE_PROMETHEUS: "true" }, { prometheusAddress: { port: 9_090 } }],
  ["a port of metrics", { PROMETHEUS_ADDR: ":19001" }, { prometheusAddress: { port: 19_001 } }],
  ["one that is turned off", { PROMETHEUS_ADDR: ":19001", USE_PROMETHEUS: "false" }, NO_PORTS],
  [
    "the first of two names of a setting",
    { XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: "1s", CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: "2s" },
    { xdsRetryMs: 1_000 },
  ],
  ["the most values of metrics that docs name", { METRIC_VALUES_MAX: "10000" }, { metricValuesMax: 10_000 }],
  ["the second alone", { CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: "2s" }, { xdsRetryMs: 2_000 }],
  [
    "PostgreSQL at a host alone",
    POSTGRES,
    inPostgres({
      host: "db.example",
      port: 5432,
      database: "limits",
      user: "ann",
      password: undefined,
      tls: undefined,
    }),
  ],
  ["a port", postgresAt("postgresql://ann@db:6000/limits"), inPostgres({ host: "db", port: 6000 })],
  ["an IPv6 address", postgresAt("postgres://ann@[::1]:6000/limits"), inPostgres({ host: "::1", port: 6000 })],
  ["a socket's folder", postgresAt("postgres://ann@/limits?host=/run/pg"), inPostgres({ host: "/run/pg", port: 5432 })],
  [
    "what a URL holds, unquoted",
    postgresAt("postgres://a%40b:s%2Fcret@db/my%20db?sslmode=verify-full"),
    inPostgres({ user: "a@b", password: "s/cret", database: "my db", tls: { skipsHostName: false } }),
  ],
  [
    "TLS of any host",
    postgresAt(`${POSTGRES.POSTGRES_URL}?sslmode=require`),
    inPostgres({ tls: { skipsHostName: true } }),
  ],
  [
    "its authority",
    postgresAt(`${POSTGRES.POSTGRES_URL}?sslmode=verify-ca`),
    inPostgres({ tls: { skipsHostName: true } }),
  ],
  ["REDIS_URL first", BOTH, { backendType: "redis", postgres: undefined }],
  ["BACKEND_TYPE before it", { ...BOTH, BACKEND_TYPE: "postgres" }, { backendType: "postgres", redis: undefined }],
];

test.each(READ)("reads %s", (_, env, settings) => {
  expectRead(env, settings);
});

describe("the table", () => {
  test("gives every setting a value of its type, or none", () => {
    const shown = describeSettings(readSettings({}));
    expect(Object.keys(shown)).toEqual(tableRows().map(([, setting]) => setting.name));
    expect(Object.values(shown).every((text) => typeof text === "string" && !text.includes("undefined"))).toBe(true);
  });

  test("reads every default, written as its variable, back as itself", () => {
    const shown = describeSettings(readSettings({}));
    const { BACKEND_TYPE: _, ...others } = shown;
    const env = Object.fromEntries(Object.entries(others).filter(([, text]) => text !== ""));
    expect(describeSettings(readSettings(env))).toEqual(shown);
  });

  test("becomes settings that are frozen, lists included", () => {
    const settings = readSettings({ RESPONSE_HEADERS: "ratelimit", ...REDIS });
    expect([settings, settings.responseHeaders, settings.redis, settings.warnings].every(Object.isFrozen)).toBe(true);
  });
});

test("names every mistake at once", () => {
  const wrong = {
    GRPC_PORT: "70000",
    PORT: "http",
    BACKEND_TYPE: "memcache",
    ON_STORE_FAILURE: "open",
    STORE_DEADLINE: "10",
    CACHE_KEY_PREFIX: "{x}",
    SHADOW_MODE: "yes",
    RESPONSE_HEADERS: "ratelimit,draft",
    LIMIT_RESET_HEADER: "Rate Limit",
    RETRY_AFTER_JITTER: "0.6",
    NEAR_LIMIT_RATIO: "1.5",
  };
  const mistakes = mistakesOf(wrong);
  expect(mistakes.map((line) => line.split(":")[0])).toEqual(Object.keys(wrong));
  expect(mistakes[1]).toBe('PORT: expected a port number from 0 to 65535, got "http"');
});

const certificate = import.meta.filename;
const WORKERS_SAY =
  /^WORKERS: not supported; a process decides on one thread; .* endpoints of one Envoy cluster \(docs\/cores\.md\)$/;
const SNAPSHOT_SAYS = /^MEMORY_SNAPSHOT: expected a path of at most 90 bytes that does not end in a slash, got/;

const REFUSED: RefusedCases = [
  [
    "equal ports",
    { PORT: "9000", GRPC_PORT: "9000" },
    /^GRPC_PORT: expected a port other than PORT, got 9000 for both$/,
  ],
  ["equal names of headers", { LIMIT_RESET_HEADER: "ratelimit-limit" }, /expected three names/],
  ["a port set by Kubernetes for a Service", { GRPC_PORT: "tcp://10.0.0.1:8081" }, /enableServiceLinks/],
  [
    "client certificates without TLS",
    { GRPC_CLIENT_TLS_CACERT: certificate },
    /^GRPC_CLIENT_TLS_CACERT: callers would not be/,
  ],
  ["a client name without authorities", { GRPC_CLIENT_TLS_SAN: "envoy" }, /^GRPC_CLIENT_TLS_SAN: callers would not be/],
  [
    "TLS without a certificate",
    { GRPC_SERVER_USE_TLS: "true", GRPC_SERVER_TLS_KEY: certificate },
    /^GRPC_SERVER_TLS_CERT: expected a file/,
  ],
  [
    "TLS without a key",
    { GRPC_SERVER_USE_TLS: "true", GRPC_SERVER_TLS_CERT: certificate },
    /^GRPC_SERVER_TLS_KEY: expected a file/,
  ],
  ["one value of metrics more than docs name", { METRIC_VALUES_MAX: "10001" }, /^METRIC_VALUES_MAX: .*10000/],
  ["pairs with another sign", { CONFIG_GRPC_XDS_NODE_METADATA: "a:1" }, /name=value/],
  ["a tag with a blank", { EXTRA_TAGS: "zone:a b" }, /EXTRA_TAGS: .*key:value/],
  [
    "a control plane's certificate without its key",
    { ...XDS, CONFIG_GRPC_XDS_SERVER_USE_TLS: "true", CONFIG_GRPC_XDS_CLIENT_TLS_CERT: certificate },
    /expected both or neither/,
  ],
  [
    "TLS to sentinels alone",
    { REDIS_SENTINEL_TLS: "true", ...REDIS },
    /^REDIS_SENTINEL_TLS: not supported; sentinels use TLS as /,
  ],
  ...["0", "2", "many"].map((text) => [`${text} workers`, { WORKERS: text, ...REDIS }, WORKERS_SAY] as const),
  ["a folder as snapshot", { MEMORY_SNAPSHOT: "/data/" }, SNAPSHOT_SAYS],
  ["a path next to which no socket fits", { MEMORY_SNAPSHOT: `/${"long/".repeat(18)}b` }, SNAPSHOT_SAYS],
  ["no address of PostgreSQL", { BACKEND_TYPE: "postgres" }, /POSTGRES_/],
  ["another scheme", { BACKEND_TYPE: "postgres", POSTGRES_URL: "mysql://ann@db/limits" }, /POSTGRES_/],
  ["no database", postgresAt("postgres://ann@db"), /POSTGRES_/],
  ["neither a host nor a socket's folder", postgresAt("postgres://ann@/limits"), /POSTGRES_/],
  ["no user", postgresAt("postgres://db/limits"), /POSTGRES_/],
  ["a parameter that is none", postgresAt(`${POSTGRES.POSTGRES_URL}?connect_timeout=3`), /POSTGRES_/],
  ["an sslmode that checks nothing", postgresAt(`${POSTGRES.POSTGRES_URL}?sslmode=prefer`), /POSTGRES_/],
  ["two passwords", { POSTGRES_URL: "postgres://ann:x@db/limits", POSTGRES_PASSWORD: "y" }, /POSTGRES_/],
  ["a schema that is no name", { ...POSTGRES, POSTGRES_SCHEMA: 'a"b' }, /POSTGRES_/],
];

test.each(REFUSED)("refuses %s in one line", (_, env, says) => {
  expectRefused(env, says);
});

const POOL = "REDIS_POOL_SIZE: not supported; one connection per server carries all calls concurrently";
const PREFIXED = "HEADGATE_SHADOW_MODE: no such setting; settings have no prefix, did you mean SHADOW_MODE?";
const SHARED = "REDIS_URL: not set, so counters stay in this process and are not shared";
const snapshotIn = (store: string) => `MEMORY_SNAPSHOT: no effect, because buckets live in ${store}`;
const WITHOUT_MODE = expect.stringContaining("no effect, because COMPATIBILITY_MODE is false");

test.each<readonly [string, Environment, readonly unknown[]]>([
  ["a variable that is empty", { PORT: "" }, ["PORT: set but empty, so ignored"]],
  ["a blank one", { SHADOW_MODE: "  " }, ["SHADOW_MODE: set but empty, so ignored"]],
  ["a misspelt name", { REDIS_ULR: "a:1" }, ["REDIS_ULR: no such setting; did you mean REDIS_URL?"]],
  ["a name made after GRPC_PORT", { HTTP_PORT: "80" }, ["HTTP_PORT: no such setting; did you mean PORT?"]],
  [
    "one that only a URL would make Kubernetes's",
    { REDIS_PORT: "6379" },
    ["REDIS_PORT: no such setting; did you mean REDIS_URL?"],
  ],
  ["a host, as other programs have it", { REDIS_HOST: "h" }, ["REDIS_HOST: no such setting; did you mean REDIS_URL?"]],
  ["a password", { REDIS_PASSWORD: "p" }, ["REDIS_PASSWORD: no such setting; did you mean REDIS_AUTH?"]],
  [
    "a switch without its last word",
    { LIMIT_RESPONSE_HEADERS: "true" },
    ["LIMIT_RESPONSE_HEADERS: no such setting; did you mean LIMIT_RESPONSE_HEADERS_ENABLED?"],
  ],
  [
    "a switch for what is always off",
    { ENABLE_NEGATIVE_HITS: "false" },
    ["ENABLE_NEGATIVE_HITS: not supported; hits with is_negative_hits are always given back"],
  ],
  ["a missing letter", { GRPC_PROT: "1" }, ["GRPC_PROT: no such setting; did you mean GRPC_PORT?"]],
  ["a prefix of ours", { STORE_COLOUR_OF_LAMP: "1" }, ["STORE_COLOUR_OF_LAMP: no such setting"]],
  [
    "a former setting",
    { BREAKER_WINDOW: "2s" },
    [expect.stringMatching(/^BREAKER_WINDOW: not supported; the breaker opens /)],
  ],
  [
    "a former setting of traces, once they are asked for",
    {
      TRACING_ENABLED: "true",
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://c:4318/v1/traces",
      OTEL_BSP_SCHEDULE_DELAY: "9",
    },
    [
      "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: not supported; use OTEL_EXPORTER_OTLP_ENDPOINT: only traces are sent",
      "OTEL_BSP_SCHEDULE_DELAY: not supported; a span waits at most 500 ms for its batch to fill",
    ],
  ],
  ["our name where Kubernetes would set a URL", { HEADGATE_PORT: "1" }, [PREFIXED.replaceAll("SHADOW_MODE", "PORT")]],
  ["our name before a setting", { HEADGATE_SHADOW_MODE: "true" }, [PREFIXED]],
  ["the other service's own", { REDIS_POOL_SIZE: "20" }, [POOL]],
  ["nothing of everybody's", { HOME: "/root", PATH: "/bin", HOSTNAME: "pod-1", GRPC_TRACE: "all", LOGNAME: "ann" }, []],
  ["nothing of what the other commands read", { HEADGATE_SERVER: "headgate-0" }, []],
  [
    "nothing of Kubernetes's",
    {
      REDIS_SERVICE_HOST: "10.0.0.1",
      REDIS_SERVICE_PORT: "6379",
      REDIS_PORT: "tcp://10.0.0.1:6379",
      REDIS_PORT_6379_TCP_ADDR: "a",
      HTTP_PORT: "tcp://10.0.0.2:80",
    },
    [],
  ],
  [
    "nothing of what is so anyway",
    {
      USE_STATSD: "false",
      USE_PROMETHEUS: "true",
      CONFIG_TYPE: "FILE",
      TRACING_ENABLED: "false",
      REDIS_SOCKET_TYPE: "tcp",
      RUNTIME_WATCH_ROOT: "false",
      WORKERS: "Auto",
    },
    [],
  ],
  ["a second store", BOTH, ["POSTGRES_URL: no effect, because REDIS_URL is set"]],
  ["counters that nobody shares", COMPATIBLE, [SHARED]],
  ["nothing of counters in memory that were asked for", { ...COMPATIBLE, BACKEND_TYPE: "memory" }, []],
  ["nothing of shared ones", { ...COMPATIBLE, ...REDIS }, []],
  ["what only that mode reads", { STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: "1" }, [WITHOUT_MODE]],
  ["its cache", { LOCAL_CACHE_SIZE_IN_BYTES: "1" }, [WITHOUT_MODE]],
  ["a snapshot with Redis", { MEMORY_SNAPSHOT: "/data/buckets", ...REDIS }, [snapshotIn("redis")]],
  ["one with PostgreSQL", { MEMORY_SNAPSHOT: "/data/buckets", ...POSTGRES }, [snapshotIn("postgres")]],
  ["nothing of one in memory", { MEMORY_SNAPSHOT: "/data/buckets" }, []],
])("warns of %s", (_, env, warnings) => {
  const settings = readSettings(env);
  expect(settings.warnings).toEqual(warnings);
  expect(settings.httpPort).toBe(8080);
});

describe("secrets", () => {
  test.each(["REDIS_URL", "REDIS_AUTH", "POSTGRES_URL", "POSTGRES_PASSWORD", "ADMIN_TOKEN"])(
    "%s that ends in a line break is refused, and the break is named",
    (name) => {
      const what = "got text that ends in a line break, as echo writes it (23 characters, not shown)";
      for (const end of ["\n", "\r\n"]) {
        const text = `${"x".repeat(23 - end.length)}${end}`;
        expect(() => readSettings({ [name]: text })).toThrow(what);
      }
    },
  );

  const env = { REDIS_URL: "redis://ann:hunter2@redis.example:6380/3", LOG_LEVEL: "WARNING" };
  const inPassword = { REDIS_URL: "r:1", REDIS_AUTH: "ann:hunter2" };

  test("stay out of the description and of the mistakes, and are listed for the log to take out", () => {
    const shown = describeSettings(readSettings(env));
    expect(shown.REDIS_URL).toBe("redis://[redacted]@redis.example:6380/3");
    expect(JSON.stringify(describeSettings(readSettings(inPassword)))).not.toContain("hunter2");
    for (const each of [env, inPassword]) expect(secretsOf(readSettings(each))).toContain("hunter2");
    const mistakes = mistakesOf({ REDIS_URL: `${env.REDIS_URL}/x`, REDIS_AUTH: "hunter2\nhunter2" });
    expect([mistakes.length, mistakes.join().includes("hunter2")]).toEqual([2, false]);
  });

  test("of PostgreSQL's URL, too", () => {
    const settings = readSettings(postgresAt("postgres://a%40b:s%2Fcret@db/my%20db?sslmode=verify-full"));
    expect(secretsOf(settings)).toContain("s/cret");
    expect(describeSettings(settings).POSTGRES_URL).toBe("postgres://a%40b@db/my%20db?sslmode=verify-full");
    const shown = (text: string) => describeSettings(readSettings(postgresAt(text))).POSTGRES_URL;
    expect(shown("postgres://ann:hun@ter2@db/limits")).toBe("postgres://ann@db/limits");
    const socket = "postgres://ann@:6000/limits?host=/run/postgresql";
    expect(shown(socket)).toBe(socket);
  });
});

describe("names and headers for a control plane", () => {
  const HEADERS = "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS";

  test("may have any sign in their values", () => {
    const settings = readSettings({
      ...XDS,
      CONFIG_GRPC_XDS_NODE_METADATA: "a=1, b=x=y",
      [HEADERS]: "x-time:10:30,x-b: c d",
    });
    expect(Object.fromEntries(settings.xdsNodeMetadata)).toEqual({ a: "1", b: "x=y" });
    expect(Object.fromEntries(settings.xdsHeaders ?? [])).toEqual({ "x-time": "10:30", "x-b": "c d" });
    expect(describeSettings(settings)[HEADERS]).toBe("[redacted]");
  });

  test.each([
    ["a sign beyond ASCII", "authorization:Bearer s3same\u2019open"],
    ["a sign that nobody sees", "authorization:Bearer s3same\u200bopen"],
    ["a name with a blank", "x a:s3same"],
    ["a name of HTTP/2's own", ":path:s3same"],
    ["a name for bytes", "x-key-bin:s3same"],
    ["a second one that is wrong", "x-a:1,x-b:s3same\u00e9"],
  ])("are refused if they can't be sent, and the mistake shows nothing of them: %s", (_, headers) => {
    const mistakes = mistakesOf({ ...XDS, [HEADERS]: headers });
    expect(mistakes).toEqual([expect.stringMatching(/CLIENT_ADDITIONAL_HEADERS: .*not shown/)]);
    expect(mistakes.join()).not.toContain("s3same");
  });
});

const body = Buffer.from(Array.from({ length: 600 }, (_, i) => (i * 31 + 7) & 255)).toString("base64");
const paths = tableRows().flatMap(([, { name, type }]) => (type.label === "path" ? [name] : []));
const pem = `-----BEGIN PRIVATE KEY-----\n${body.replace(/.{64}/g, "$&\n")}\n-----END PRIVATE KEY-----\n`;
const forms = [pem, `-----BEGIN CERTIFICATE-----${body}-----END CERTIFICATE-----`, `MII${body}`];

test.each(paths)("a key or certificate in the setting of a path is not shown: %s", (name) => {
  for (const text of forms) {
    let said = "";
    try {
      said = JSON.stringify(readSettings({ [name]: text }).warnings);
    } catch (error) {
      said = String(error);
    }
    expect(said).not.toContain(body.slice(0, 20));
  }
});
