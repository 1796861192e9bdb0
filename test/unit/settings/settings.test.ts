// Settings from the environment: defaults, mistakes all at once, secrets, what fits together, look-alikes.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ConfigError } from "../../../src/engine/base/errors.ts";
import {
  describeSettings,
  type Environment,
  readSettings,
  secretsOf,
  tableRows,
} from "../../../src/process/settings.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const directory = temporaryFolder("headgate-settings");
const file = join(directory, "secret.txt");
writeFileSync(file, "x");

function mistakesOf(env: Environment): readonly string[] {
  try {
    readSettings(env);
  } catch (error) {
    if (error instanceof ConfigError && error.code === "CONFIG_SETTINGS") return error.problems;
    throw error;
  }
  return [];
}

describe("without any variable", () => {
  test("listens on the reference's ports with the memory store and the rules of the package", () => {
    const settings = readSettings({});
    expect(settings).toMatchObject({
      httpPort: 8080,
      grpcPort: 8081,
      backendType: "memory",
      redis: undefined,
      warnings: [],
    });
    expect(settings.rulesDir).toMatch(/deploy\/rules$/);
  });

  test("gives every setting of the table a value of its type, or none", () => {
    const shown = describeSettings(readSettings({}));
    expect(Object.keys(shown)).toEqual(tableRows().map(([, setting]) => setting.name));
    expect(Object.values(shown).every((text) => typeof text === "string" && !text.includes("undefined"))).toBe(true);
  });

  test("is frozen, lists included", () => {
    const settings = readSettings({ RESPONSE_HEADERS: "ratelimit", REDIS_URL: "redis:6379" });
    expect([settings, settings.responseHeaders, settings.redis, settings.warnings].every(Object.isFrozen)).toBe(true);
  });
});

test("every default, written as its variable, reads back as itself", () => {
  const shown = describeSettings(readSettings({}));
  const skipped = new Set(["BACKEND_TYPE"]);
  const env = Object.fromEntries(Object.entries(shown).filter(([name, text]) => text !== "" && !skipped.has(name)));
  expect(describeSettings(readSettings(env))).toEqual(shown);
});

test("names every mistake at once", () => {
  const mistakes = mistakesOf({
    PORT: "http",
    GRPC_PORT: "70000",
    SHADOW_MODE: "yes",
    STORE_DEADLINE: "10",
    NEAR_LIMIT_RATIO: "1.5",
    LIMIT_RESET_HEADER: "Rate Limit",
    CACHE_KEY_PREFIX: "{x}",
    ON_STORE_FAILURE: "open",
    RESPONSE_HEADERS: "ratelimit,draft",
    RETRY_AFTER_JITTER: "0.6",
    BACKEND_TYPE: "memcache",
  });
  expect(mistakes.map((line) => line.split(":")[0])).toEqual([
    "GRPC_PORT",
    "PORT",
    "BACKEND_TYPE",
    "ON_STORE_FAILURE",
    "STORE_DEADLINE",
    "CACHE_KEY_PREFIX",
    "SHADOW_MODE",
    "RESPONSE_HEADERS",
    "LIMIT_RESET_HEADER",
    "RETRY_AFTER_JITTER",
    "NEAR_LIMIT_RATIO",
  ]);
  expect(mistakes[1]).toBe('PORT: expected a port number from 0 to 65535, got "http"');
});

test("counts a variable that is set but empty as not set, and says so", () => {
  const settings = readSettings({ PORT: "", SHADOW_MODE: "  " });
  expect(settings.httpPort).toBe(8080);
  expect(settings.warnings).toEqual([
    "PORT: set but empty, which counts as not set",
    "SHADOW_MODE: set but empty, which counts as not set",
  ]);
});

describe("secrets", () => {
  const env = { REDIS_URL: "redis://ann:hunter2@redis.example:6380/3", LOG_LEVEL: "WARNING" };

  test("stay out of the description", () => {
    const shown = describeSettings(readSettings(env));
    expect(shown.REDIS_URL).toBe("redis://[redacted]@redis.example:6380/3");
    expect(JSON.stringify(describeSettings(readSettings({ REDIS_URL: "r:1", REDIS_AUTH: "hunter2" })))).not.toContain(
      "hunter2",
    );
  });

  test("stay out of the mistakes", () => {
    const mistakes = mistakesOf({
      REDIS_URL: "redis://ann:hunter2@redis.example:6380/3/x",
      REDIS_AUTH: "hunter2\nhunter2",
    });
    expect(mistakes).toHaveLength(2);
    expect(mistakes.join()).not.toContain("hunter2");
  });

  test("are listed for the log to take out", () => {
    expect(secretsOf(readSettings(env))).toContain("hunter2");
    expect(secretsOf(readSettings({ REDIS_URL: "r:1", REDIS_AUTH: "ann:hunter2" }))).toContain("hunter2");
  });

  test("reach the store", () => {
    expect(readSettings(env).redis).toMatchObject({
      address: { kind: "tcp", host: "redis.example", port: 6380 },
      database: 3,
      login: { username: "ann", password: "hunter2" },
      tls: undefined,
    });
  });
});

describe("the rules directory", () => {
  test.each([
    { name: "RULES_DIR before all", env: { RULES_DIR: "/a", RUNTIME_ROOT: "/b" }, expected: "/a" },
    { name: "the RUNTIME_ path", env: { RUNTIME_ROOT: "/b", RUNTIME_SUBDIRECTORY: "rl" }, expected: "/b/rl/config" },
    {
      name: "the RUNTIME_ path's own root",
      env: { RUNTIME_SUBDIRECTORY: "rl" },
      expected: "/srv/runtime_data/current/rl/config",
    },
    {
      name: "another app directory",
      env: { RUNTIME_ROOT: "/b", RUNTIME_APPDIRECTORY: "limits" },
      expected: "/b/limits",
    },
  ])("is $name", ({ env, expected }) => {
    expect(readSettings(env).rulesDir).toBe(expected);
  });
});

test("every file counts in the RUNTIME_ directory only", () => {
  expect(readSettings({ RUNTIME_ROOT: "/b" }).readsEveryFile).toBe(true);
  expect(readSettings({ RUNTIME_ROOT: "/b", RULES_DIR: "/a" }).readsEveryFile).toBe(false);
  expect(readSettings({}).readsEveryFile).toBe(false);
});

test("LIMIT_RESPONSE_HEADERS_ENABLED adds the ratelimit family once", () => {
  expect(readSettings({ LIMIT_RESPONSE_HEADERS_ENABLED: "true" }).responseHeaders).toEqual(["ratelimit"]);
  const both = { LIMIT_RESPONSE_HEADERS_ENABLED: "1", RESPONSE_HEADERS: "x-ratelimit, ratelimit" };
  expect(readSettings(both).responseHeaders).toEqual(["x-ratelimit", "ratelimit"]);
});

test("equal ports and equal header names are refused", () => {
  expect(mistakesOf({ PORT: "9000", GRPC_PORT: "9000" })).toHaveLength(1);
  expect(mistakesOf({ LIMIT_RESET_HEADER: "ratelimit-limit" })).toHaveLength(1);
});

describe("variables that are no settings", () => {
  test.each([
    {
      name: "a misspelt name",
      env: { REDIS_ULR: "a:1" },
      warning: "REDIS_ULR: no such setting; did you mean REDIS_URL?",
    },
    {
      name: "a missing letter",
      env: { GRPC_PROT: "1" },
      warning: "GRPC_PROT: no such setting; did you mean GRPC_PORT?",
    },
    {
      name: "a prefix of ours",
      env: { BREAKER_COLOUR_OF_LAMP: "1" },
      warning: "BREAKER_COLOUR_OF_LAMP: no such setting",
    },
    {
      name: "a setting with our name before it",
      env: { HEADGATE_PORT: "1", HEADGATE_SHADOW_MODE: "true" },
      warning: "HEADGATE_SHADOW_MODE: no such setting; settings have no prefix, did you mean SHADOW_MODE?",
    },
    {
      name: "one of the other service",
      env: { REDIS_POOL_SIZE: "20" },
      warning: "REDIS_POOL_SIZE: not supported; one connection to each server carries all calls, many at once",
    },
  ])("warn of $name", ({ env, warning }) => {
    expect(readSettings(env).warnings).toEqual([warning]);
  });

  test.each([
    {
      name: "everybody's",
      env: { HOME: "/root", PATH: "/bin", HOSTNAME: "pod-1", SHELL: "sh", GRPC_TRACE: "all", LOGNAME: "ann" },
    },
    {
      name: "Kubernetes's",
      env: { REDIS_SERVICE_HOST: "10.0.0.1", REDIS_PORT: "tcp://10.0.0.1:6379", REDIS_PORT_6379_TCP_ADDR: "10.0.0.1" },
    },
    {
      name: "those that ask for nothing else",
      env: { USE_STATSD: "false", USE_PROMETHEUS: "true", CONFIG_TYPE: "FILE", TRACING_ENABLED: "false" },
    },
  ])("say nothing of $name", ({ env }) => {
    expect(readSettings(env).warnings).toEqual([]);
  });

  test.each([
    { name: "no certificate", env: { GRPC_SERVER_USE_TLS: "true" }, says: "GRPC_SERVER_TLS_CERT: expected a file" },
    {
      name: "client certificates without TLS",
      env: { GRPC_CLIENT_TLS_CACERT: import.meta.filename },
      says: "GRPC_CLIENT_TLS_CACERT: callers would not be checked",
    },
    {
      name: "a client name without authorities",
      env: { GRPC_CLIENT_TLS_SAN: "envoy" },
      says: "GRPC_CLIENT_TLS_SAN: callers would not be checked",
    },
  ])("end the start when TLS is half set up: $name", ({ env, says }) => {
    expect(() => readSettings(env)).toThrow(says);
  });
});

describe("a control plane", () => {
  const XDS = { CONFIG_TYPE: "GRPC_XDS_SOTW" };

  test("sends all rules, unless RULES_DIR names files beside them", () => {
    expect(readSettings(XDS)).toMatchObject({ configType: "grpc_xds_sotw", readsFiles: false, debugPort: 6070 });
    expect(readSettings({ ...XDS, RUNTIME_ROOT: "/data", RUNTIME_SUBDIRECTORY: "ratelimit" }).readsFiles).toBe(false);
    expect(readSettings({ ...XDS, RULES_DIR: "/rules" })).toMatchObject({ readsFiles: true, rulesDir: "/rules" });
    expect(readSettings({}).readsFiles).toBe(true);
  });

  test("is told names and headers with any sign in their values", () => {
    const settings = readSettings({
      ...XDS,
      CONFIG_GRPC_XDS_NODE_METADATA: "a=1, b=x=y",
      CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: "x-time:10:30,x-b: c d",
    });
    expect([...settings.xdsNodeMetadata]).toEqual([
      ["a", "1"],
      ["b", "x=y"],
    ]);
    expect([...(settings.xdsHeaders ?? [])]).toEqual([
      ["x-time", "10:30"],
      ["x-b", "c d"],
    ]);
    expect(describeSettings(settings).CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS).toBe("[redacted]");
    expect(mistakesOf({ CONFIG_GRPC_XDS_NODE_METADATA: "a:1" })).toEqual([expect.stringContaining("name=value")]);
  });

  test.each([
    { what: "a sign beyond ASCII", headers: "authorization:Bearer s3same\u2019open" },
    { what: "a sign that nobody sees", headers: "authorization:Bearer s3same\u200bopen" },
    { what: "a name with a blank", headers: "x a:s3same" },
    { what: "a name of HTTP/2's own", headers: ":path:s3same" },
    { what: "a name for bytes", headers: "x-key-bin:s3same" },
    { what: "a second one that is wrong", headers: "x-a:1,x-b:s3same\u00e9" },
  ])("gets no header that can't be sent, and the mistake shows nothing of it: $what", ({ headers }) => {
    const mistakes = mistakesOf({ ...XDS, CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: headers });
    expect(mistakes).toEqual([expect.stringMatching(/CLIENT_ADDITIONAL_HEADERS: .*not shown/)]);
    expect(mistakes.join()).not.toContain("s3same");
  });

  test("needs a key with its certificate", () => {
    const env = {
      ...XDS,
      CONFIG_GRPC_XDS_SERVER_USE_TLS: "true",
      CONFIG_GRPC_XDS_CLIENT_TLS_CERT: import.meta.filename,
    };
    expect(mistakesOf(env)).toEqual([expect.stringContaining("expected both or neither")]);
  });
});

test("a port set by Kubernetes for a Service is recognised", () => {
  expect(mistakesOf({ GRPC_PORT: "tcp://10.0.0.1:8081" })[0]).toContain("enableServiceLinks");
});

describe("the PostgreSQL settings together", () => {
  const url = "postgres://ann@db.example/limits";

  test.each([
    { name: "a host alone", url, host: "db.example", port: 5432 },
    { name: "a port", url: "postgresql://ann@db.example:6000/limits", host: "db.example", port: 6000 },
    { name: "an IPv6 address", url: "postgres://ann@[::1]:6000/limits", host: "::1", port: 6000 },
    {
      name: "a socket's folder",
      url: "postgres://ann@/limits?host=/run/postgresql",
      host: "/run/postgresql",
      port: 5432,
    },
  ])("take $name", ({ url, host, port }) => {
    const { backendType, postgres } = readSettings({ POSTGRES_URL: url });
    expect(backendType).toBe("postgres");
    expect(postgres).toMatchObject({
      host,
      port,
      database: "limits",
      user: "ann",
      password: undefined,
      tls: undefined,
    });
  });

  test("unquote what a URL holds, and never show its password", () => {
    const settings = readSettings({ POSTGRES_URL: "postgres://a%40b:s%2Fcret@db/my%20db?sslmode=verify-full" });
    expect(settings.postgres).toMatchObject({ user: "a@b", password: "s/cret", database: "my db" });
    expect(settings.postgres?.tls).toMatchObject({ skipsHostName: false });
    expect(secretsOf(settings)).toContain("s/cret");
    const socket = "postgres://ann@:6000/limits?host=/run/postgresql";
    expect(describeSettings(readSettings({ POSTGRES_URL: socket })).POSTGRES_URL).toBe(socket);
    expect(describeSettings(settings).POSTGRES_URL).toBe("postgres://a%40b@db:5432/my%20db?sslmode=verify-full");
  });

  test.each(["require", "verify-ca"])("sslmode=%s checks the authority, not the host's name", (mode) => {
    expect(readSettings({ POSTGRES_URL: `${url}?sslmode=${mode}` }).postgres?.tls).toMatchObject({
      skipsHostName: true,
    });
  });

  test.each([
    { name: "no address", env: { BACKEND_TYPE: "postgres" } },
    { name: "another scheme", env: { BACKEND_TYPE: "postgres", POSTGRES_URL: "mysql://ann@db/limits" } },
    { name: "no database", env: { POSTGRES_URL: "postgres://ann@db" } },
    { name: "neither a host nor a socket's folder", env: { POSTGRES_URL: "postgres://ann@/limits" } },
    { name: "no user", env: { POSTGRES_URL: "postgres://db/limits" } },
    { name: "a parameter that is none", env: { POSTGRES_URL: `${url}?connect_timeout=3` } },
    { name: "an sslmode that checks nothing", env: { POSTGRES_URL: `${url}?sslmode=prefer` } },
    { name: "two passwords", env: { POSTGRES_URL: "postgres://ann:x@db/limits", POSTGRES_PASSWORD: "y" } },
    { name: "a schema that is no name", env: { POSTGRES_URL: url, POSTGRES_SCHEMA: 'a"b' } },
  ])("refuse $name", ({ env }) => {
    expect(() => readSettings(env)).toThrow(/POSTGRES_/);
  });

  test("REDIS_URL goes first, and BACKEND_TYPE before it", () => {
    const both = { POSTGRES_URL: url, REDIS_URL: "redis.example" };
    expect(readSettings(both)).toMatchObject({ backendType: "redis", postgres: undefined });
    expect(readSettings(both).warnings).toContain("POSTGRES_URL: without effect, because REDIS_URL is set");
    expect(readSettings({ ...both, BACKEND_TYPE: "postgres" })).toMatchObject({
      backendType: "postgres",
      redis: undefined,
    });
  });
});

describe("the compatibility mode", () => {
  test("brings the reference's defaults, which can be overridden one by one", () => {
    expect(readSettings({ COMPATIBILITY_MODE: "true" })).toMatchObject({
      onStoreFailure: "error",
      ignoresDotFiles: false,
      grpcReflection: false,
      warnings: ["REDIS_URL: not set, so counters live in this process and are shared with nobody"],
    });
    expect(readSettings({ COMPATIBILITY_MODE: "true", ON_STORE_FAILURE: "local" }).onStoreFailure).toBe("local");
    expect(readSettings({})).toMatchObject({ onStoreFailure: "allow", ignoresDotFiles: true, grpcReflection: true });
  });

  test.each(["STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "LOCAL_CACHE_SIZE_IN_BYTES"])(
    "%s does nothing without it",
    (name) => {
      expect(readSettings({ [name]: "1" }).warnings).toHaveLength(1);
    },
  );
});

describe("WORKERS", () => {
  test.each([
    { name: "one unless said otherwise", env: {}, workers: 1 },
    { name: "a number with a shared store", env: { WORKERS: "4", REDIS_URL: "redis:6379" }, workers: 4 },
    {
      name: "auto with PostgreSQL too",
      env: { WORKERS: "Auto", POSTGRES_URL: "postgres://headgate@db/limits" },
      workers: "auto",
    },
  ])("is $name", ({ env, workers }) => {
    const settings = readSettings(env);
    expect(settings.workers).toBe(workers);
    expect(settings.warnings.filter((line) => line.startsWith("WORKERS"))).toEqual([]);
  });

  test.each(["4", "auto"])("%s stays at one with the memory store, and says why", (text) => {
    const settings = readSettings({ WORKERS: text });
    expect(settings.workers).toBe(1);
    expect(describeSettings(settings).WORKERS).toBe("1");
    expect(settings.warnings).toEqual([
      expect.stringMatching(
        /^WORKERS: staying at 1 in place of (4|auto), because the memory store lives in one process/,
      ),
    ]);
  });

  test.each(["0", "129", "many", "1.5"])("can't be %s", (text) => {
    expect(mistakesOf({ WORKERS: text, REDIS_URL: "redis:6379" })).toEqual([
      `WORKERS: expected a whole number from 1 to 128, or auto, got "${text}"`,
    ]);
  });
});

describe("MEMORY_SNAPSHOT", () => {
  test.each([
    { store: "redis", env: { REDIS_URL: "redis:6379" } },
    { store: "postgres", env: { POSTGRES_URL: "postgres://headgate@db/limits" } },
  ])("is without effect with $store, and says so", ({ store, env }) => {
    expect(readSettings({ MEMORY_SNAPSHOT: "/data/buckets", ...env }).warnings).toContain(
      `MEMORY_SNAPSHOT: without effect, because buckets live in ${store}`,
    );
    expect(readSettings({ MEMORY_SNAPSHOT: "/data/buckets" }).warnings).toEqual([]);
  });

  test.each(["/data/", `/${"long/".repeat(18)}b`])("can't be %s: a socket stands beside the file", (text) => {
    expect(mistakesOf({ MEMORY_SNAPSHOT: text })).toEqual([
      expect.stringContaining("MEMORY_SNAPSHOT: expected a path of at most 90 bytes that does not end in a slash, got"),
    ]);
  });
});

describe("a key or certificate in the setting of a path", () => {
  const body = Buffer.from(Array.from({ length: 600 }, (_, i) => (i * 31 + 7) & 255)).toString("base64");
  const paths = tableRows().flatMap(([, { name, type }]) => (type.label === "path" ? [name] : []));
  const forms = [
    {
      form: "as PEM",
      text: `-----BEGIN PRIVATE KEY-----\n${body.replace(/.{64}/g, "$&\n")}\n-----END PRIVATE KEY-----\n`,
    },
    { form: "as PEM on one line", text: `-----BEGIN CERTIFICATE-----${body}-----END CERTIFICATE-----` },
    { form: "as base64 alone", text: `MII${body}` },
  ];
  const cases = paths.flatMap((name) => forms.map((one) => ({ name, ...one })));

  test.each(cases)("is not shown: $name $form", ({ name, text }) => {
    let said = "";
    try {
      said = JSON.stringify(readSettings({ [name]: text }).warnings);
    } catch (error) {
      said = String(error);
    }
    expect(said).not.toContain(body.slice(0, 20));
  });
});
