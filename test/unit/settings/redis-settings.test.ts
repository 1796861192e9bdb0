// Where Redis is, in every form that the settings take, and one sentence for everything that can't be meant.

import { describe, expect, test } from "vitest";
import { describeSettings, readSettings, secretsOf } from "../../../src/settings/settings.ts";
import { expectRead, expectRefused, type ReadCases, type RefusedCases } from "../../support/settings-read.ts";

const file = import.meta.filename;
const tcp = (host: string, port: number) => ({ kind: "tcp", host, port });
const unix = (path: string) => ({ backendType: "redis", redis: { kind: "single", address: { kind: "unix", path } } });
const single = (host: string, port: number, more: object = {}) => ({
  backendType: "redis",
  redis: { kind: "single", address: tcp(host, port), ...more },
});
const url = (text: string) => ({ REDIS_URL: text });
const sentinels = {
  kind: "sentinel",
  primaryName: "gate",
  sentinels: [tcp("s1", 26379), tcp("s2", 5000)],
  tls: undefined,
};
const SENTINELS = { redis: sentinels };
const CLUSTER = { redis: { kind: "cluster", seeds: [tcp("a", 7000), tcp("b", 6379)] } };
const SENTINEL_LOGIN = { database: 0, login: { username: "bob", password: "two" } };
const SECOND = { REDIS_URL: "a:1", REDIS_PERSECOND: "true" };
const TLS = expect.objectContaining({ skipsHostName: false });

const READ: ReadCases = [
  ["a host and port", url("redis.example:7000"), single("redis.example", 7000)],
  ["a host alone", url("redis.example"), single("redis.example", 6379)],
  ["an IPv6 address", url("[::1]:7000"), single("::1", 7000)],
  ["a URL", url("redis://redis.example"), single("redis.example", 6379)],
  ["a URL in capitals", url("REDIS://redis.example:1"), single("redis.example", 1)],
  ["a socket", url("/run/redis%20?.sock"), unix("/run/redis%20?.sock")],
  ["a socket below the working directory", url("./redis.sock"), unix("./redis.sock")],
  ["a socket's URL", url("unix:///run/redis.sock?db=2"), unix("/run/redis.sock")],
  [
    "login and database, percent-encoded where they need it",
    url("rediss://ann:p%40ss@redis.example/3"),
    single("redis.example", 6379, { login: { username: "ann", password: "p@ss" }, database: 3, tls: TLS }),
  ],
  [
    "an @ in a password, up to the last one",
    url("redis://:a@b@r"),
    single("r", 6379, { login: { username: undefined, password: "a@b" } }),
  ],
  [
    "a login outside the URL",
    { ...url("a:1"), REDIS_AUTH: "ann:b:c" },
    single("a", 1, { login: { username: "ann", password: "b:c" } }),
  ],
  [
    "a password alone",
    { ...url("a:1"), REDIS_AUTH: "b" },
    single("a", 1, { login: { username: undefined, password: "b" } }),
  ],
  [
    "TLS by its own setting",
    { ...url("a:1"), REDIS_TLS: "true", REDIS_TLS_CACERT: file },
    single("a", 1, { tls: expect.objectContaining({ caFile: file }) }),
  ],
  ["sentinels by URL", url("redis-sentinel://s1,s2:5000/gate"), SENTINELS],
  ["sentinels by the reference's list", { ...url("gate,s1,s2:5000"), REDIS_TYPE: "SENTINEL" }, SENTINELS],
  [
    "a login of theirs",
    { ...url("redis-sentinel://ann:one@s1/gate/2"), REDIS_SENTINEL_AUTH: "bob:two" },
    { redis: { database: 2, login: { username: "ann", password: "one" }, sentinelAccess: SENTINEL_LOGIN } },
  ],
  ["TLS to them as to Redis", url("rediss-sentinel://s1/gate"), { redis: { tls: TLS, sentinelAccess: { tls: TLS } } }],
  ["a cluster by URL", url("redis-cluster://a:7000,b"), CLUSTER],
  ["a cluster by the reference's list", { ...url("a:7000,b"), REDIS_TYPE: "CLUSTER" }, CLUSTER],
  ["a cluster by a plain URL with the type", { ...url("redis://a:7000,b"), REDIS_TYPE: "cluster" }, CLUSTER],
  ["no second Redis unless asked for", { ...url("a:1"), REDIS_PERSECOND_URL: "b:2" }, { perSecondRedis: undefined }],
  ["a second Redis", { ...SECOND, REDIS_PERSECOND_URL: "b:2" }, { perSecondRedis: { address: tcp("b", 2) } }],
  [
    "one with settings of its own and the TLS files of the first",
    {
      ...SECOND,
      REDIS_PERSECOND_URL: "gate,s1",
      REDIS_PERSECOND_TYPE: "sentinel",
      REDIS_PERSECOND_AUTH: "x",
      REDIS_PERSECOND_SENTINEL_AUTH: "y",
      REDIS_PERSECOND_TLS: "true",
      REDIS_PERSECOND_TIMEOUT: "5s",
      REDIS_TLS_CACERT: file,
    },
    {
      perSecondRedis: {
        kind: "sentinel",
        login: { password: "x" },
        sentinelAccess: { login: { password: "y" } },
        tls: { caFile: file },
        connectTimeoutMs: 5_000,
      },
      redis: { tls: undefined },
      warnings: [],
    },
  ],
  [
    "memory in spite of a URL, which is said",
    { ...url("a:1"), BACKEND_TYPE: "memory" },
    {
      backendType: "memory",
      redis: undefined,
      warnings: ["REDIS_URL: no effect, because BACKEND_TYPE is memory"],
    },
  ],
];

test.each(READ)("reads %s", (_, env, settings) => {
  expectRead(env, settings);
});

const REFUSED: RefusedCases = [
  ["a list of servers", url("a:1,b:2"), /redis-sentinel:\/\/.*redis-cluster:\/\//],
  ["a list in a plain URL", url("redis://a:1,b:2"), /one server, got several/],
  ["a port out of range", url("a:70000"), /a port from 1 to 65535, got 70000/],
  ["another scheme", url("http://a:1"), /a URL of redis, rediss/],
  ["a misspelt scheme", url("redis-sentinal://a:1/g"), /did you mean redis-sentinel:\/\/\?$/],
  ["a server of a list", url("redis-cluster://a:1,b:x"), /as server 2 of 2, got some/],
  ["no server at all", url("redis-cluster://"), /as server 1 of 1, got nothing/],
  ["a user without a password", url("redis://ann@a:1"), /got no password/],
  ["a broken escape", url("redis://:%zz@a:1"), /two hex digits/],
  ["a long path", url("redis://a:1/3/x"), /a database number as the path/],
  ["a database that is none", url("redis://a:1/x"), /from 0 to 65535/],
  ["an unknown query", url("redis://a:1?timeout=3"), /nothing but db after the question mark/],
  ["sentinels without a name", url("redis-sentinel://a,b"), /the primary's name after/],
  ["a name without sentinels", { ...url("gate"), REDIS_TYPE: "sentinel" }, /name,host:port/],
  ["a database of a cluster", url("redis-cluster://a/2"), /database 0/],
  ["a type that does not fit", { ...url("redis-cluster://a"), REDIS_TYPE: "single" }, /fits REDIS_TYPE single/],
  ["two logins", { ...url("redis://:x@a:1"), REDIS_AUTH: "y" }, /^REDIS_URL, REDIS_AUTH: .*login of Redis in only one/],
  [
    "two logins of sentinels",
    { ...url("redis-sentinel://a/g"), REDIS_SENTINEL_AUTH: "y", REDIS_SENTINEL_AUTH_FILE: file },
    /^REDIS_SENTINEL_AUTH, REDIS_SENTINEL_AUTH_FILE: .*login of the sentinels in only one/,
  ],
  [
    "a sentinel's login without sentinels",
    { ...url("a:1"), REDIS_SENTINEL_AUTH: "y" },
    /^REDIS_SENTINEL_AUTH: .*got none/,
  ],
  ["TLS on a socket", { ...url("/run/redis.sock"), REDIS_TLS: "true" }, /Unix socket/],
  ["a certificate without its key", { ...url("rediss://a:1"), REDIS_TLS_CLIENT_CERT: file }, /both or neither/],
  [
    "a file that is not there",
    { ...url("a:1"), REDIS_AUTH_FILE: `${file}.none` },
    /a readable file, got ".*": it does not exist$/,
  ],
  ["redis without a URL", { BACKEND_TYPE: "redis" }, /got nothing/],
  [
    "a second Redis that is not named",
    SECOND,
    /^REDIS_PERSECOND_URL: expected the address of the second Redis, .*; got nothing$/,
  ],
];

// Promise(redis): Every form of REDIS_URL is read; each mistake gets one line.
test.each(REFUSED)("refuses %s in one line", (_, env, says) => {
  expectRefused(env, says);
});

describe("secrets", () => {
  test("are in no form of a URL that is shown", () => {
    const shown = (text: string, env: object = {}) =>
      describeSettings(readSettings({ ...url(text), ...env })).REDIS_URL;
    expect(shown("rediss-sentinel://ann:hunter2@s1,[::1]:5/gate/2")).toBe(
      "rediss-sentinel://[redacted]@s1,[::1]:5/gate/2",
    );
    expect(shown("redis-cluster://:hunter2@a,b:7")).toBe("redis-cluster://[redacted]@a,b:7");
    expect(shown("redis://:hunter@2@a")).toBe("redis://[redacted]@a");
    expect(shown("gate,s1", { REDIS_TYPE: "sentinel" })).toBe("gate,s1");
    expect(shown("ann:hunter2", { BACKEND_TYPE: "memory" })).toBe("[redacted]");
  });

  test("of sentinels and of the second Redis are known as secrets", () => {
    const settings = readSettings({
      REDIS_URL: "redis-sentinel://:one@s1/gate",
      REDIS_SENTINEL_AUTH: "two",
      REDIS_PERSECOND: "true",
      REDIS_PERSECOND_URL: "redis-cluster://:three@s1",
    });
    expect(secretsOf(settings)).toEqual(expect.arrayContaining(["one", "two", "three"]));
  });
});
