// Ways to reach Redis, and what is said when it can't be used: one sentence, never a password.

import { readFileSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join, resolve } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { beforeAll, describe, expect, test } from "vitest";
import type { RedisTarget } from "../../src/stores/redis/connect.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { closedWithTest } from "../support/ends.ts";
import { listen } from "../support/listen.ts";
import { RedisServer } from "../support/redis-server.ts";
import { whenUp } from "../support/when-up.ts";
import { troubleOf, works } from "./connect-rig.ts";
import { until } from "./store-rig.ts";

const PASSWORD = "s3cret:of-the-test";
const TLS = resolve(import.meta.dirname, "../fixtures/tls");

let server: RedisServer;
let guarded: RedisServer;

beforeAll(async () => {
  server = await RedisServer.start(["--maxclients", "50"]);
  guarded = await RedisServer.start(["--unixsocket", "redis.sock"], PASSWORD);
});

const open = (target: RedisTarget) => openRedisStore({ target, deadlineMs: 5_000 });
const troubleWith = (target: RedisTarget) => troubleOf(open(target));
const addressOf = (port: number, host = "127.0.0.1") => ({ kind: "tcp", host, port }) as const;

describe("ways", () => {
  test("by host and port, by a password, needed or not, by user and password, by a Unix socket, into a database", async () => {
    await guarded.command("ACL", "SETUSER", "alice", "on", `>${PASSWORD}`, "~*", "+@all");
    const login = { username: undefined, password: PASSWORD };
    const path = join(guarded.directory, "redis.sock");
    expect(await works(open(server.target()))).toBe(true);
    expect(await works(open(server.target({ login })))).toBe(true);
    expect(await works(open(guarded.target({ login })))).toBe(true);
    expect(await works(open(guarded.target({ login: { username: "alice", password: PASSWORD } })))).toBe(true);
    expect(await works(open(guarded.target({ address: { kind: "unix", path }, login })))).toBe(true);
    expect(await works(open(server.target({ database: 3 })))).toBe(true);
    expect(await server.command("INFO", "keyspace")).toContain("db3:");
  });

  test("by TLS, with the authority's file and without its host's name being checked", async () => {
    const cert = readFileSync(join(TLS, "localhost.pem"));
    const key = readFileSync(join(TLS, "localhost-key.pem"));
    const listener = createTlsServer({ cert, key }, (client) => {
      const upstream = connect(server.port, "127.0.0.1");
      client.pipe(upstream).pipe(client);
      client.on("error", () => upstream.destroy());
      upstream.on("error", () => client.destroy());
    });
    const port = await listen(listener);
    const address = addressOf(port);
    const tls = { certFile: undefined, keyFile: undefined, caFile: join(TLS, "localhost.pem"), skipsHostName: false };
    expect(await works(open(server.target({ address: addressOf(port, "localhost"), tls })))).toBe(true);
    expect(await works(open(server.target({ address, tls: { ...tls, skipsHostName: true } })))).toBe(true);
    expect(await troubleWith(server.target({ address, tls }))).toMatch(/has a certificate for a different host name$/);
    expect(await troubleWith(server.target({ address, tls: { ...tls, caFile: undefined } }))).toMatch(
      /has an untrusted certificate: it is self-signed$/,
    );
    expect(await troubleWith(server.target({ tls, connectTimeoutMs: 5_000 }))).toMatch(/can't be reached by TLS/);
    expect(await troubleWith(server.target({ address }))).toBe(
      `Redis at 127.0.0.1:${port} closed the connection without an answer; if it needs TLS, use rediss://`,
    );
  });

  test("by a password file that is read again at every connect", async () => {
    const loginFile = join(guarded.directory, "login");
    writeFileSync(loginFile, "bob:first\n");
    await guarded.command("ACL", "SETUSER", "bob", "on", ">first", "~*", "+@all");
    const store = closedWithTest(open(guarded.target({ loginFile })));
    expect(await whenUp(store, 20_000)).toBe(true);
    await guarded.command("ACL", "SETUSER", "bob", "resetpass", ">second");
    writeFileSync(loginFile, "bob:second\n");
    await guarded.command("CLIENT", "KILL", "USER", "bob");
    await until("the connection is lost", () => store.trouble() !== undefined);
    expect(await whenUp(store, 20_000)).toBe(true);
  });
});

describe("troubles", () => {
  test.each<{ what: string; change: Partial<RedisTarget>; isGuarded?: boolean; says: string | RegExp }>([
    {
      what: "the host has no address",
      change: { address: addressOf(1, "no-such-host.invalid") },
      says: /^Redis at no-such-host.invalid:1 can't be found: /,
    },
    {
      what: "the socket does not exist",
      change: { address: { kind: "unix", path: "/nowhere/redis.sock" } },
      says: /^Redis at \/nowhere\/redis.sock can't be reached: the socket does not exist$/,
    },
    {
      what: "a wrong password",
      change: { login: { username: undefined, password: `${PASSWORD}-not` } },
      isGuarded: true,
      says: "refuses the password or the user name",
    },
    {
      what: "an unknown user",
      change: { login: { username: "nobody", password: PASSWORD } },
      isGuarded: true,
      says: "refuses the password or the user name",
    },
    { what: "no password where one is wanted", change: {}, isGuarded: true, says: "needs a password, and none is set" },
    {
      what: "a password file that is not there",
      change: { loginFile: "/nowhere/login" },
      isGuarded: true,
      says: "can't be used, because /nowhere/login can't be read (ENOENT)",
    },
    {
      what: "a database that does not exist",
      change: { database: 900 },
      says: "does not have the configured database number",
    },
  ])("$what", async ({ change, isGuarded = false, says }) => {
    const asked = isGuarded ? guarded : server;
    const trouble = await troubleWith(asked.target(change));
    expect(trouble).toEqual(
      typeof says === "string" ? `Redis at 127.0.0.1:${asked.port} ${says}` : expect.stringMatching(says),
    );
  });

  test.each([
    { what: "scripts", rights: ["~*", "+@all", "-@scripting"], can: "run EVALSHA" },
    { what: "what scripts write with", rights: ["~*", "+@all", "-set"], can: "run the commands of Headgate's script" },
    { what: "our keys", rights: ["~other:*", "+@all"], can: "use Headgate's keys" },
  ])("no permission for $what", async ({ rights, can }) => {
    await guarded.command("ACL", "SETUSER", "carol", "reset", "on", `>${PASSWORD}`, ...rights);
    const trouble = await troubleWith(guarded.target({ login: { username: "carol", password: PASSWORD } }));
    expect(trouble).toBe(`Redis at 127.0.0.1:${guarded.port} does not allow the user carol to ${can}`);
    expect(trouble).not.toContain(PASSWORD);
  });

  test("something that is no Redis", async () => {
    const address = addressOf(await listen(createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"))));
    expect(await troubleWith(server.target({ address, login: { username: undefined, password: PASSWORD } }))).toMatch(
      /is not Redis: it does not answer in Redis's protocol$|closed the connection without an answer/,
    );
  });

  test("something that says nothing", async () => {
    const address = addressOf(await listen(createServer((socket) => socket.on("error", () => socket.destroy()))));
    const trouble = await troubleWith(server.target({ address, connectTimeoutMs: 100 }));
    expect(trouble).toMatch(/accepts connections but does not answer \(no answer within 100 ms\)$/);
  });
});
