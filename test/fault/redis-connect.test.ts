// Ways to reach Redis, and what is said when it can't be used: one sentence, never a password.

import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { join, resolve } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import type { RedisTarget } from "../../src/stores/redis/connect.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { RedisServer } from "../support/redis-server.ts";
import { whenUp } from "../support/when-up.ts";
import { groupOn, settle, until } from "./store-rig.ts";

const PASSWORD = "s3cret:of-the-test";
const TLS = resolve(import.meta.dirname, "../fixtures/tls");

let server: RedisServer;
let guarded: RedisServer;
const stores: SharedStore[] = [];
const listeners: Server[] = [];

beforeAll(async () => {
  server = await RedisServer.start(["--maxclients", "50"]);
  guarded = await RedisServer.start(["--unixsocket", "redis.sock"], PASSWORD);
});
afterEach(async () => {
  await Promise.all(stores.splice(0).map((store) => store.close()));
  for (const listener of listeners.splice(0)) listener.close();
});
afterAll(() => Promise.all([server.stop(), guarded.stop()]));

function open(target: RedisTarget): SharedStore {
  const store = openRedisStore({ target, deadlineMs: 5_000 });
  stores.push(store);
  return store;
}

async function works(target: RedisTarget): Promise<boolean> {
  const store = open(target);
  if (!(await whenUp(store, 20_000))) throw new Error(store.trouble());
  return (await settle(store, groupOn("k"))).verdict === Verdict.allowed;
}

/** What the store says once its first attempt to connect has ended. */
async function troubleWith(target: RedisTarget): Promise<string> {
  const store = open(target);
  await until("the first attempt has ended", () => store.trouble()?.includes("not connected yet") === false);
  return store.trouble() ?? "nothing";
}

async function listen(listener: Server): Promise<RedisTarget["address"]> {
  listeners.push(listener);
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const address = listener.address();
  if (address === null || typeof address === "string") throw new Error("no address");
  return { kind: "tcp", host: "127.0.0.1", port: address.port };
}

describe("ways", () => {
  test("by host and port, by a password, needed or not, by user and password, by a Unix socket, into a database", async () => {
    await guarded.command("ACL", "SETUSER", "alice", "on", `>${PASSWORD}`, "~*", "+@all");
    const login = { username: undefined, password: PASSWORD };
    const path = join(guarded.directory, "redis.sock");
    expect(await works(server.target())).toBe(true);
    expect(await works(server.target({ login }))).toBe(true);
    expect(await works(guarded.target({ login }))).toBe(true);
    expect(await works(guarded.target({ login: { username: "alice", password: PASSWORD } }))).toBe(true);
    expect(await works(guarded.target({ address: { kind: "unix", path }, login }))).toBe(true);
    expect(await works(server.target({ database: 3 }))).toBe(true);
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
    const address = await listen(listener);
    const port = address.kind === "tcp" ? address.port : 0;
    const tls = { certFile: undefined, keyFile: undefined, caFile: join(TLS, "localhost.pem"), skipsHostName: false };
    expect(await works(server.target({ address: { kind: "tcp", host: "localhost", port }, tls }))).toBe(true);
    expect(await works(server.target({ address, tls: { ...tls, skipsHostName: true } }))).toBe(true);
    expect(await troubleWith(server.target({ address, tls }))).toMatch(/shows a certificate for another host name$/);
    expect(await troubleWith(server.target({ address, tls: { ...tls, caFile: undefined } }))).toMatch(
      /shows a certificate that is not trusted: it is signed by itself$/,
    );
    expect(await troubleWith(server.target({ tls, connectTimeoutMs: 5_000 }))).toMatch(/can't be reached by TLS/);
    expect(await troubleWith(server.target({ address }))).toBe(
      `Redis at 127.0.0.1:${port} closed the connection before it said anything; if it wants TLS there, that needs rediss://`,
    );
  });

  test("by a password file that is read again at every connect", async () => {
    const loginFile = join(guarded.directory, "login");
    writeFileSync(loginFile, "bob:first\n");
    await guarded.command("ACL", "SETUSER", "bob", "on", ">first", "~*", "+@all");
    const store = open(guarded.target({ loginFile }));
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
      change: { address: { kind: "tcp", host: "no-such-host.invalid", port: 1 } },
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
    { what: "no password where one is wanted", change: {}, isGuarded: true, says: "wants a password, and none is set" },
    {
      what: "a password file that is not there",
      change: { loginFile: "/nowhere/login" },
      isGuarded: true,
      says: "can't be used, because /nowhere/login can't be read (ENOENT)",
    },
    {
      what: "a database that does not exist",
      change: { database: 900 },
      says: "has no database of the number that is set",
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
    { what: "what scripts write with", rights: ["~*", "+@all", "-set"], can: "run the commands of our script" },
    { what: "our keys", rights: ["~other:*", "+@all"], can: "touch our keys" },
  ])("no permission for $what", async ({ rights, can }) => {
    await guarded.command("ACL", "SETUSER", "carol", "reset", "on", `>${PASSWORD}`, ...rights);
    const trouble = await troubleWith(guarded.target({ login: { username: "carol", password: PASSWORD } }));
    expect(trouble).toBe(`Redis at 127.0.0.1:${guarded.port} does not permit the user carol to ${can}`);
    expect(trouble).not.toContain(PASSWORD);
  });

  test("something that is no Redis", async () => {
    const address = await listen(createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")));
    expect(await troubleWith(server.target({ address, login: { username: undefined, password: PASSWORD } }))).toMatch(
      /is no Redis: its answer is in no form that Redis uses$|closed the connection before it said anything/,
    );
  });

  test("something that says nothing", async () => {
    const address = await listen(createServer((socket) => socket.on("error", () => socket.destroy())));
    const trouble = await troubleWith(server.target({ address, connectTimeoutMs: 100 }));
    expect(trouble).toMatch(/accepts connections but does not answer \(no answer within 100 ms\)$/);
  });
});
