// Sentinel and Cluster over TLS, with ACL users that may do no more than docs/redis.md says, whose passwords lie in
// files and change while everything runs.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { Store } from "../../src/engine/domain/store.ts";
import { Verdict } from "../../src/engine/domain/take.ts";
import { openClusterStore } from "../../src/stores/redis/cluster-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { Authority } from "../support/certificates.ts";
import { closedWithTest } from "../support/ends.ts";
import { ClusterRig } from "../support/redis-cluster.ts";
import { SentinelRig } from "../support/redis-sentinel.ts";
import type { RedisServer } from "../support/redis-server.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { whenUp } from "../support/when-up.ts";
import { groupOn, settle, until } from "./store-rig.ts";

const RIGHTS = "~* +@read +@write +@scripting +@connection +time -@dangerous +info".split(" ");
const SENTINEL_RIGHTS = [
  "+sentinel|get-master-addr-by-name",
  "+sentinel|sentinels",
  "+subscribe",
  "&+switch-master",
  "&+failover-state-wait-promotion",
];

const authority = new Authority();
const pair = authority.issue("localhost");
const serverTls = { certFile: pair.certFile, keyFile: pair.keyFile, caFile: authority.certFile };
const tls = { certFile: undefined, keyFile: undefined, caFile: authority.certFile, skipsHostName: false };
const directory = temporaryFolder("headgate-login");

/** A login in a file, and the user that it opens on every server. */
class RotatedLogin {
  readonly file: string;
  readonly #user: string;
  readonly #rights: readonly string[];
  readonly #servers: readonly RedisServer[];
  #password: string | undefined;
  #count = 0;

  constructor(user: string, rights: readonly string[], servers: readonly RedisServer[]) {
    this.file = join(directory, user);
    this.#user = user;
    this.#rights = rights;
    this.#servers = servers;
  }

  /** Gives the user another password, everywhere, and ends its connections. */
  async rotate(): Promise<void> {
    const password = `s3cret-${this.#count++}`;
    const old = this.#password === undefined ? [] : [`<${this.#password}`];
    this.#password = password;
    writeFileSync(this.file, `${this.#user}:${password}\n`);
    for (const server of this.#servers) {
      await server.command("ACL", "SETUSER", this.#user, "on", `>${password}`, ...old, ...this.#rights);
      await server.command("CLIENT", "KILL", "USER", this.#user).catch(() => undefined);
    }
  }
}

async function pays(store: Store): Promise<boolean> {
  const groups = await Promise.all(["a", "b", "c", "d", "e", "f"].map((key) => settle(store, groupOn(key))));
  return groups.every(({ verdict }) => verdict === Verdict.allowed);
}

describe("Redis Cluster", () => {
  let rig: ClusterRig;
  beforeAll(async () => {
    rig = await ClusterRig.start({ tls: serverTls });
  });

  test("over TLS with an ACL user goes on through a new password and a failover", async () => {
    const login = new RotatedLogin("gate", [...RIGHTS, "+cluster|slots", "+cluster|info", "+asking"], rig.nodes);
    await login.rotate();
    const target = rig.target({ loginFile: login.file, tls });
    const store = closedWithTest(openClusterStore({ target, deadlineMs: 1_000 }));
    expect(await whenUp(store, 20_000), store.trouble()).toBe(true);
    expect(await pays(store)).toBe(true);
    await login.rotate();
    await until("it pays with the new password", () => pays(store));
    await rig.failOver(await rig.ownerOf(0));
    await until("it pays on the new primary", () => pays(store));
    expect(store.trouble()).toBeUndefined();
  });
});

describe("Redis Sentinel", () => {
  let rig: SentinelRig;
  beforeAll(async () => {
    rig = await SentinelRig.start({ tls: serverTls });
  });

  // Promise(redis): TLS, ACL users with the documented rights, and passwords that change in operation work.
  test("over TLS with ACL users on both goes on through new passwords and a failover", async () => {
    const login = new RotatedLogin("gate", [...RIGHTS, "+role"], rig.servers);
    const watcher = new RotatedLogin("watcher", SENTINEL_RIGHTS, rig.sentinels);
    await login.rotate();
    await watcher.rotate();
    const access = { database: 0, login: undefined, tls, connectTimeoutMs: 2_000 };
    const sentinels = rig.sentinels.map(
      ({ tlsPort = 0 }) => ({ kind: "tcp", host: "127.0.0.1", port: tlsPort }) as const,
    );
    const store = openRedisStore({
      target: {
        ...access,
        loginFile: login.file,
        primaryName: rig.primaryName,
        sentinels,
        sentinelAccess: { ...access, loginFile: watcher.file },
      },
      deadlineMs: 1_000,
    });
    expect(await whenUp(store, 20_000), store.trouble()).toBe(true);
    expect(await pays(store)).toBe(true);
    await login.rotate();
    await watcher.rotate();
    await until("it pays with the new password", () => pays(store));
    await rig.failOver();
    await until("it pays on the new primary", () => pays(store));
    expect(store.trouble()).toBeUndefined();
  });
});
