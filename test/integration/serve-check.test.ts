// `headgate serve --check`: one run names everything that is wrong with a start, starts nothing, and leaves nothing in the store.

import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runThrough } from "../../src/base/long-work.ts";
import { digestOf, RATE_LIMIT_TYPE } from "../../src/rule-sources/xds/discovery.ts";
import { CacheFile } from "../../src/rule-sources/xds/rules-cache.ts";
import { PROGRAM } from "../support/built-program.ts";
import { Authority } from "../support/certificates.ts";
import { freePort, RedisServer } from "../support/redis-server.ts";
import { resourceBytes } from "../support/resources.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const folder = temporaryFolder("headgate-serve-check");
writeFileSync(join(folder, "edge.yaml"), "domain: edge\n");
const pair = new Authority().issue("headgate.test");
const TLS = { GRPC_SERVER_USE_TLS: "true", GRPC_SERVER_TLS_CERT: pair.certFile };

function check(env: Readonly<Record<string, string>>): {
  readonly code: number | null;
  readonly said: readonly string[];
} {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...PROGRAM, "serve", "--check"], {
    env: { RULES_DIR: folder, ...env },
    encoding: "utf8",
  });
  expect(stderr).toBe("");
  return { code: status, said: stdout.trim().split("\n") };
}

test("says what is right, ends with 0, and leaves no key that stays", async () => {
  const redis = await RedisServer.start();
  const env = { ...TLS, GRPC_SERVER_TLS_KEY: pair.keyFile, REDIS_URL: `127.0.0.1:${redis.port}` };
  expect(check(env)).toEqual({
    code: 0,
    said: [
      "ok       settings",
      `ok       rules: 1 domain from ${folder}`,
      expect.stringMatching(/^ok {7}certificates: CN=headgate\.test, valid to 2/),
      "ok       store: redis",
    ],
  });
  expect(await redis.command("DBSIZE")).toBe(0);
});

test("names everything that is wrong at once, and ends with 1", async () => {
  const bad = temporaryFolder("headgate-serve-check-bad");
  writeFileSync(
    join(bad, "edge.yaml"),
    "domain: edge\ndescriptors: [{ key: a, rate_limit: { unit: dy } }, { key: b, rate_limit: 5 }]\n",
  );
  const port = await freePort();
  const key = new Authority("stranger").issue("headgate.test").keyFile;
  const { code, said } = check({
    ...TLS,
    RULES_DIR: bad,
    GRPC_SERVER_TLS_KEY: key,
    REDIS_URL: `127.0.0.1:${port}`,
    LOG_LEVEL: "loud",
    TOP_KEYS: "many",
    STATSD_PORTS: "1",
  });
  expect(code).toBe(1);
  expect(said.join("\n")).toMatch(
    new RegExp(
      [
        "^error {4}LOG_LEVEL: expected .*",
        "error {4}TOP_KEYS: expected .*",
        "warning {2}STATSD_PORTS: .*",
        "error {4}the rules in .* can't be used: 2 errors; .*",
        " {9}edge.yaml:2:.*",
        " {9}edge.yaml:2:.*",
        "error {4}.*certificates can't be used: .*",
        `error {4}store: Redis at 127.0.0.1:${port} refuses connections.*$`,
      ].join("\n"),
    ),
  );
});

test("reads what RULES_CACHE keeps, and asks no control plane", async () => {
  const RULES_CACHE = join(folder, "cache");
  const env = { CONFIG_TYPE: "GRPC_XDS_SOTW", CONFIG_GRPC_XDS_SERVER_URL: "127.0.0.1:1", RULES_CACHE };
  expect(check(env)).toMatchObject({
    code: 0,
    said: expect.arrayContaining(["ok       rules: 127.0.0.1:1 sends them, and none are kept"]),
  });
  const resources = [{ typeUrl: RATE_LIMIT_TYPE, value: resourceBytes({ name: "edge", domain: "edge" }) }];
  const set = { version: "7", resources, digest: runThrough(digestOf(resources)) };
  await new CacheFile(RULES_CACHE, { warn: () => undefined }).write(set, 0);
  expect(check(env)).toMatchObject({
    code: 0,
    said: expect.arrayContaining([`ok       rules: 1 domain from ${RULES_CACHE}, as 127.0.0.1:1 sent them`]),
  });
  writeFileSync(RULES_CACHE, "cut");
  expect(check(env).said.join("\n")).toMatch(/^warning {2}can't read the rules in RULES_CACHE: /m);
});

test("does not check what depends on settings that can't be used", () => {
  const { code, said } = check({ REDIS_URL: "127.0.0.1:1", REDIS_TLS: "perhaps", GRPC_SERVER_TLS_CERT: "/nowhere" });
  expect(code).toBe(1);
  expect(said.filter((line) => !line.startsWith("error"))).toEqual([`ok       rules: 1 domain from ${folder}`]);
});
