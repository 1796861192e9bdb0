// Where Redis is, in every form that the settings take, and one sentence for everything that can't be meant.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ConfigError } from "../../../src/engine/base/errors.ts";
import { describeSettings, type Environment, readSettings, secretsOf } from "../../../src/process/settings.ts";
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

const tcp = (host: string, port: number) => ({ kind: "tcp", host, port });

describe("a single server", () => {
  test.each([
    { name: "a host and port", url: "redis.example:7000", address: tcp("redis.example", 7000) },
    { name: "a host alone", url: "redis.example", address: tcp("redis.example", 6379) },
    { name: "an IPv6 address", url: "[::1]:7000", address: tcp("::1", 7000) },
    { name: "a URL", url: "redis://redis.example", address: tcp("redis.example", 6379) },
    { name: "an IPv6 URL", url: "redis://[::1]:7000", address: tcp("::1", 7000) },
    { name: "a URL in capitals", url: "REDIS://redis.example:1", address: tcp("redis.example", 1) },
    { name: "a socket", url: "/run/redis.sock", address: { kind: "unix", path: "/run/redis.sock" } },
    { name: "a socket by a relative path", url: "./redis.sock", address: { kind: "unix", path: "./redis.sock" } },
    { name: "a socket's URL", url: "unix:///run/redis.sock?db=2", address: { kind: "unix", path: "/run/redis.sock" } },
  ])("is $name", ({ url, address }) => {
    expect(readSettings({ REDIS_URL: url })).toMatchObject({
      backendType: "redis",
      redis: { kind: "single", address },
    });
  });

  test("has login and database in its URL, percent-encoded where they need it", () => {
    expect(readSettings({ REDIS_URL: "rediss://ann:p%40ss@redis.example/3" }).redis).toMatchObject({
      login: { username: "ann", password: "p@ss" },
      database: 3,
      tls: { skipsHostName: false },
    });
  });

  test("takes a password with an @ in it, up to the last one", () => {
    expect(readSettings({ REDIS_URL: "redis://:a@b@redis.example" }).redis).toMatchObject({
      address: tcp("redis.example", 6379),
      login: { username: undefined, password: "a@b" },
    });
  });
});

describe("sentinels", () => {
  const sentinels = [tcp("s1", 26379), tcp("s2", 5000)];
  test.each([
    { name: "a URL", env: { REDIS_URL: "redis-sentinel://s1,s2:5000/gate" } },
    { name: "the reference's list", env: { REDIS_URL: "gate,s1,s2:5000", REDIS_TYPE: "SENTINEL" } },
  ])("are $name", ({ env }) => {
    expect(readSettings(env).redis).toMatchObject({ kind: "sentinel", primaryName: "gate", sentinels, tls: undefined });
  });

  test("have a login of their own, in the URL or beside it", () => {
    const inUrl = readSettings({
      REDIS_URL: "redis-sentinel://ann:one@s1/gate/2?sentinel_username=bob&sentinel_password=two",
    }).redis;
    const beside = readSettings({ REDIS_URL: "gate,s1", REDIS_TYPE: "sentinel", REDIS_SENTINEL_AUTH: "bob:two" }).redis;
    expect(inUrl).toMatchObject({
      database: 2,
      login: { username: "ann", password: "one" },
      sentinelAccess: { database: 0, login: { username: "bob", password: "two" } },
    });
    expect(beside).toMatchObject({ sentinelAccess: { login: { username: "bob", password: "two" } } });
  });

  test.each([
    { name: "speak TLS as Redis does", env: { REDIS_URL: "rediss-sentinel://s1/gate" }, both: [true, true] },
    { name: "speak TLS by a query", env: { REDIS_URL: "redis-sentinel://s1/gate?tls=true" }, both: [true, true] },
    {
      name: "may do without",
      env: { REDIS_URL: "rediss-sentinel://s1/gate", REDIS_SENTINEL_TLS: "false" },
      both: [true, false],
    },
    {
      name: "may speak it alone",
      env: { REDIS_URL: "redis-sentinel://s1/gate?sentinel_tls=true" },
      both: [false, true],
    },
  ])("$name", ({ env, both }) => {
    const { redis } = readSettings(env);
    const sentinelTls = redis?.kind === "sentinel" ? redis.sentinelAccess.tls : undefined;
    expect([redis?.tls !== undefined, sentinelTls !== undefined]).toEqual(both);
  });
});

describe("a cluster", () => {
  test.each([
    { name: "a URL", env: { REDIS_URL: "redis-cluster://a:7000,b" } },
    { name: "the reference's list", env: { REDIS_URL: "a:7000,b", REDIS_TYPE: "CLUSTER" } },
    { name: "a plain URL with the type", env: { REDIS_URL: "redis://a:7000,b", REDIS_TYPE: "cluster" } },
  ])("is $name", ({ env }) => {
    expect(readSettings(env).redis).toMatchObject({ kind: "cluster", seeds: [tcp("a", 7000), tcp("b", 6379)] });
  });
});

describe("the second Redis", () => {
  const env = { REDIS_URL: "a:1", REDIS_PERSECOND: "true" };
  test("is there only when asked for", () => {
    expect(readSettings({ REDIS_URL: "a:1", REDIS_PERSECOND_URL: "b:2" }).perSecondRedis).toBeUndefined();
    expect(readSettings({ ...env, REDIS_PERSECOND_URL: "b:2" }).perSecondRedis).toMatchObject({ address: tcp("b", 2) });
  });

  test("has settings of its own and the TLS files of the first", () => {
    const settings = readSettings({
      ...env,
      REDIS_PERSECOND_URL: "gate,s1",
      REDIS_PERSECOND_TYPE: "sentinel",
      REDIS_PERSECOND_AUTH: "x",
      REDIS_PERSECOND_SENTINEL_AUTH: "y",
      REDIS_PERSECOND_TLS: "true",
      REDIS_PERSECOND_TIMEOUT: "5s",
      REDIS_TLS_CACERT: file,
    });
    expect(settings.perSecondRedis).toMatchObject({
      kind: "sentinel",
      login: { password: "x" },
      sentinelAccess: { login: { password: "y" } },
      tls: { caFile: file },
      connectTimeoutMs: 5_000,
    });
    expect(settings.redis?.tls).toBeUndefined();
    expect(settings.warnings).toEqual([]);
  });

  test("is missed when asked for and not named", () => {
    expect(mistakesOf(env)).toEqual([
      "REDIS_PERSECOND_URL: expected the Redis of limits per second, because REDIS_PERSECOND is true; got nothing",
    ]);
  });
});

describe("what can't be meant", () => {
  // Promise(redis): Every form of REDIS_URL is read; each mistake gets one line.
  test.each([
    { name: "a list of servers", env: { REDIS_URL: "a:1,b:2" }, says: /redis-sentinel:\/\/.*redis-cluster:\/\// },
    { name: "a list in a plain URL", env: { REDIS_URL: "redis://a:1,b:2" }, says: /one server, got several/ },
    { name: "a port out of range", env: { REDIS_URL: "a:70000" }, says: /a port from 1 to 65535, got 70000/ },
    { name: "another scheme", env: { REDIS_URL: "http://a:1" }, says: /a URL of redis, rediss/ },
    {
      name: "a misspelt scheme",
      env: { REDIS_URL: "redis-sentinal://a:1/g" },
      says: /did you mean redis-sentinel:\/\/\?$/,
    },
    { name: "a server of a list", env: { REDIS_URL: "redis-cluster://a:1,b:x" }, says: /as server 2 of 2, got some/ },
    { name: "no server at all", env: { REDIS_URL: "redis-cluster://" }, says: /as server 1 of 1, got nothing/ },
    { name: "a user without a password", env: { REDIS_URL: "redis://ann@a:1" }, says: /got no password/ },
    { name: "a broken escape", env: { REDIS_URL: "redis://:%zz@a:1" }, says: /two hex digits/ },
    { name: "a long path", env: { REDIS_URL: "redis://a:1/3/x" }, says: /a database number as the path/ },
    { name: "a database that is none", env: { REDIS_URL: "redis://a:1/x" }, says: /from 0 to 65535/ },
    { name: "an unknown query", env: { REDIS_URL: "redis://a:1?timeout=3" }, says: /db, tls after the question mark/ },
    { name: "sentinels without a name", env: { REDIS_URL: "redis-sentinel://a,b" }, says: /the primary's name after/ },
    { name: "a name without sentinels", env: { REDIS_URL: "gate", REDIS_TYPE: "sentinel" }, says: /name,host:port/ },
    { name: "a database of a cluster", env: { REDIS_URL: "redis-cluster://a/2" }, says: /database 0/ },
    {
      name: "a type that does not fit",
      env: { REDIS_URL: "redis-cluster://a", REDIS_TYPE: "single" },
      says: /fits REDIS_TYPE single/,
    },
    {
      name: "a socket type that does not fit",
      env: { REDIS_URL: "a:1", REDIS_SOCKET_TYPE: "unix" },
      says: /SOCKET_TYPE/,
    },
    { name: "two logins", env: { REDIS_URL: "redis://:x@a:1", REDIS_AUTH: "y" }, says: /login of Redis in one/ },
    {
      name: "two logins of sentinels",
      env: { REDIS_URL: "redis-sentinel://a/g?sentinel_password=x", REDIS_SENTINEL_AUTH: "y" },
      says: /login of the sentinels in one/,
    },
    {
      name: "a sentinel's login without sentinels",
      env: { REDIS_URL: "a:1", REDIS_SENTINEL_AUTH: "y" },
      says: /got none/,
    },
    { name: "TLS on a socket", env: { REDIS_URL: "/run/redis.sock", REDIS_TLS: "true" }, says: /Unix socket/ },
    {
      name: "a certificate without its key",
      env: { REDIS_URL: "rediss://a:1", REDIS_TLS_CLIENT_CERT: file },
      says: /both or neither/,
    },
    {
      name: "a file that is not there",
      env: { REDIS_URL: "a:1", REDIS_AUTH_FILE: join(directory, "none") },
      says: /a file that can be read, got ".*": it does not exist$/,
    },
    { name: "redis without a URL", env: { BACKEND_TYPE: "redis" }, says: /got nothing/ },
  ])("is said of $name in one line", ({ env, says }) => {
    expect(mistakesOf(env)).toEqual([expect.stringMatching(says)]);
  });
});

describe("secrets", () => {
  test("are in no form of a URL that is shown", () => {
    const shown = (url: string) => describeSettings(readSettings({ REDIS_URL: url })).REDIS_URL;
    expect(shown("rediss-sentinel://ann:hunter2@s1,[::1]:5/gate/2?sentinel_password=hunter3&sentinel_tls=false")).toBe(
      "rediss-sentinel://[redacted]@s1:26379,[::1]:5/gate/2?sentinel_password=[redacted]&sentinel_tls=false",
    );
    expect(shown("redis-cluster://:hunter2@a,b:7")).toBe("redis-cluster://[redacted]@a:6379,b:7");
  });

  test("of sentinels and of the second Redis are known as secrets", () => {
    const settings = readSettings({
      REDIS_URL: "redis-sentinel://:one@s1/gate?sentinel_password=two",
      REDIS_PERSECOND: "true",
      REDIS_PERSECOND_URL: "redis-cluster://:three@s1",
    });
    expect(secretsOf(settings)).toEqual(expect.arrayContaining(["one", "two", "three"]));
  });

  test("are in no line about mistakes", () => {
    const urls = ["redis://ann:hunter2@a:1/3/x", "redis-sentinel://:hunter2@s1", "redis://:hunter2@a?x=hunter2"];
    expect(urls.flatMap((url) => mistakesOf({ REDIS_URL: url })).join()).not.toContain("hunter2");
  });
});

test("REDIS_AUTH is split at its first colon", () => {
  const loginOf = (auth: string) => readSettings({ REDIS_URL: "a:1", REDIS_AUTH: auth }).redis?.login;
  expect(loginOf("ann:b:c")).toEqual({ username: "ann", password: "b:c" });
  expect(loginOf("b")).toEqual({ username: undefined, password: "b" });
});

test("REDIS_TLS turns TLS on", () => {
  const { redis } = readSettings({ REDIS_URL: "a:1", REDIS_TLS: "true", REDIS_TLS_CACERT: file });
  expect(redis?.tls).toMatchObject({ caFile: file });
});

test("a URL is not used when the store is memory, which is said", () => {
  const settings = readSettings({ REDIS_URL: "a:1", BACKEND_TYPE: "memory" });
  expect(settings).toMatchObject({ backendType: "memory", redis: undefined });
  expect(settings.warnings).toEqual(["REDIS_URL: without effect, because BACKEND_TYPE is memory"]);
});
