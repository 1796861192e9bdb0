// Ways to reach PostgreSQL, and what is said when it can't be used: one sentence, never a password.

import { chmodSync, chownSync, copyFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { PostgresTarget } from "../../src/settings/store-address.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { closedWithTest } from "../support/ends.ts";
import { listen } from "../support/listen.ts";
import { startPgBouncer } from "../support/pgbouncer.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { whenUp } from "../support/when-up.ts";
import { troubleOf, works } from "./connect-rig.ts";
import { until } from "./store-rig.ts";

const PASSWORD = "s3cret of the test";
const TLS = resolve(import.meta.dirname, "../fixtures/tls");

let server: PostgresServer;

beforeAll(async () => {
  server = await PostgresServer.start();
  await server.query(`CREATE ROLE alice LOGIN PASSWORD '${PASSWORD}'`);
  await server.query("CREATE ROLE bob LOGIN PASSWORD 'first'");
  await server.query("GRANT CREATE ON DATABASE postgres TO alice, bob");
  await server.query("CREATE ROLE carol LOGIN");
  for (const name of ["localhost.pem", "localhost-key.pem"]) {
    const copy = join(server.directory, name);
    const { uid, gid } = statSync(join(server.directory, "data"));
    copyFileSync(join(TLS, name), copy);
    chmodSync(copy, 0o600);
    chownSync(copy, uid, gid);
  }
  await server.query(`ALTER SYSTEM SET ssl_cert_file = '${server.directory}/localhost.pem'`);
  await server.query(`ALTER SYSTEM SET ssl_key_file = '${server.directory}/localhost-key.pem'`);
  await server.query("ALTER SYSTEM SET ssl = on");
  writeFileSync(
    join(server.directory, "data/pg_hba.conf"),
    ["local all all trust", "host all alice,bob all scram-sha-256", "host all all all trust"].join("\n"),
  );
  await server.query("SELECT pg_reload_conf()");
}, 60_000);

const open = (target: PostgresTarget, schema = "headgate") =>
  openPostgresStore({ target, deadlineMs: 5_000, connections: 1, schema });
const troubleWith = (target: PostgresTarget, schema?: string) => troubleOf(open(target, schema));

describe("ways", () => {
  test("by host and port, by password, by a Unix socket, into a schema of any name", async () => {
    expect(await works(open(server.target()))).toBe(true);
    expect(await works(open(server.target({ host: server.directory })))).toBe(true);
    expect(await works(open(server.target({ user: "alice", password: PASSWORD }), "Alice's own"))).toBe(true);
  });

  test("and leaves no bucket of its own test", async () => {
    expect(await works(open(server.target(), "untouched"))).toBe(true);
    // Its other connections may still be at theirs.
    await expect
      .poll(() => server.query("SELECT bucket_key AS key FROM untouched.bucket"))
      .toEqual([{ key: expect.stringMatching(/k$/) }]);
  });

  test("by a password file that is read again at every connect", async () => {
    const passwordFile = join(server.directory, "password");
    writeFileSync(passwordFile, "first\n");
    const store = closedWithTest(open(server.target({ user: "bob", passwordFile }), "bob"));
    expect(await whenUp(store, 20_000)).toBe(true);
    await server.query("ALTER ROLE bob PASSWORD 'second'");
    writeFileSync(passwordFile, "second\n");
    const sessions = async () =>
      (await server.query("SELECT pid FROM pg_stat_activity WHERE usename = 'bob'")).map(({ pid }) => pid);
    const before = await sessions();
    await server.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'bob'");
    await until("it has logged in again", async () => (await sessions()).some((pid) => !before.includes(pid)));
    expect(await whenUp(store, 20_000)).toBe(true);
  });

  test("by TLS, with the authority's file", async () => {
    const tls = { certFile: undefined, keyFile: undefined, caFile: join(TLS, "localhost.pem"), skipsHostName: false };
    expect(await works(open(server.target({ host: "localhost", tls })))).toBe(true);
    expect(await troubleWith(server.target({ tls }))).toMatch(/has a certificate for a different host name$/);
    const encrypted = "SELECT count(*)::int AS n FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE s.ssl";
    expect((await server.query(encrypted))[0]?.n).toBeGreaterThan(0);
  });
});

describe("troubles", () => {
  test.each<{ what: string; change: Partial<PostgresTarget>; at?: string; says: string }>([
    {
      what: "a wrong password",
      change: { user: "alice", password: `${PASSWORD}-not` },
      says: "refuses the password or",
    },
    {
      what: "no password",
      change: { user: "alice" },
      says: "refuses the password or|needs a password, and none is set",
    },
    { what: "an unknown user", change: { user: "mallory" }, says: "does not let the user log in|refuses the password" },
    { what: "an unknown database", change: { database: "nowhere" }, says: "does not have the configured database" },
    {
      what: "a socket that does not exist",
      change: { host: "/nowhere", port: 5432 },
      at: "/nowhere/.s.PGSQL.5432",
      says: "can't be reached: the socket does not exist",
    },
  ])("$what", async ({ change, at = `127.0.0.1:${server.port}`, says }) => {
    const trouble = await troubleWith(server.target(change));
    expect(trouble).toMatch(new RegExp(`^PostgreSQL at ${at} (${says})`));
    expect(trouble).not.toContain(PASSWORD);
  });

  test("no permission to make our schema, or to use it", async () => {
    expect(await troubleWith(server.target({ user: "carol" }), "carol")).toBe(
      `PostgreSQL at 127.0.0.1:${server.port} does not allow the user carol to use or create Headgate's tables and functions (42501)`,
    );
    expect(await troubleWith(server.target({ user: "carol" }))).toContain("does not allow the user carol to");
  });

  // Promise(postgres): A pooler that shares sessions by transaction is refused before anything is ready, and one in session mode is used.
  test("a pooler that shares sessions by transaction", async () => {
    const port = await startPgBouncer(server.port, "transaction");
    const stores = Array.from({ length: 8 }, () =>
      openPostgresStore({ target: server.target({ port }), deadlineMs: 5_000, connections: 4, schema: "pooled" }),
    );
    // On a busy machine attempts may also end because the pooler does not answer in time.
    for (const store of stores.map(closedWithTest)) {
      await until("it says so", () => /^PostgreSQL at \S+ is behind a pooler/.test(store.trouble() ?? ""));
    }
    expect(stores.filter((store) => store.trouble() === undefined)).toEqual([]);
    expect(await works(open(server.target({ port: await startPgBouncer(server.port, "session") })))).toBe(true);
  });

  test("a primary that lets nobody write by default", async () => {
    await server.query("CREATE ROLE reader LOGIN");
    await server.query("ALTER ROLE reader SET default_transaction_read_only = on");
    expect(await troubleWith(server.target({ user: "reader" }), "reader")).toContain(
      "is read-only: a standby, or default_transaction_read_only is on",
    );
  });

  test("something that is no PostgreSQL", async () => {
    const port = await listen(createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")));
    expect(await troubleWith(server.target({ port, password: PASSWORD }))).toMatch(
      /^PostgreSQL at 127.0.0.1:\d+ (closed the connection|is no PostgreSQL|can't be used)/,
    );
  });
});
