// A real Redis under Sentinel: one primary, two replicas, three sentinels, on free ports, quick to notice what fails.

import { setTimeout as sleep } from "node:timers/promises";
import { configLines, RedisServer, type ServerTls, tlsArguments } from "./redis-server.ts";

const PRIMARY_NAME = "gate";
const DOWN_AFTER_MS = 500;
/** How often sentinels look at servers and tell each other of themselves; without this it is every two to ten seconds. */
const QUICK =
  "INFO-PERIOD 300 PING-PERIOD 200 ASK-PERIOD 100 PUBLISH-PERIOD 100 ELECTION-TIMEOUT 1000 MIN-LINK-RECONNECT-PERIOD 100";
/**
 * Once they know each other. A server that calls itself primary before a sentinel has heard of a change is made a replica again after four
 * of these periods: on a busy machine the sentinel that makes the change may be silent for longer than the quick four.
 */
const PATIENT = "PUBLISH-PERIOD 1500";
const SETTLE_MS_MAX = 60_000;

export interface SentinelRigOptions {
  /** Password of the Redis servers. */
  readonly password?: string;
  /** Password of the sentinels. */
  readonly sentinelPassword?: string;
  /** Has all of them speak TLS with each other and on a port for it, in addition to the plain one that the rig itself uses. */
  readonly tls?: ServerTls;
}

/** The servers, to be killed and paused one by one. */
export class SentinelRig {
  readonly primaryName = PRIMARY_NAME;
  /** The first was the primary at the start. */
  readonly servers: readonly RedisServer[];
  readonly sentinels: readonly RedisServer[];

  private constructor(servers: readonly RedisServer[], sentinels: readonly RedisServer[]) {
    this.servers = servers;
    this.sentinels = sentinels;
  }

  /** Resolves once the sentinels know each other and the replicas are in step. */
  static async start({ password, sentinelPassword, tls }: SentinelRigOptions = {}): Promise<SentinelRig> {
    const masterAuth = password === undefined ? [] : ["--masterauth", password];
    const quick = ["--repl-diskless-sync-delay", "0", ...masterAuth];
    const replication = tls === undefined ? [] : ["--tls-replication", "yes"];
    const startOne = async (args: readonly string[]) => {
      const secured = await tlsArguments(tls);
      const server = await RedisServer.start([...quick, ...replication, ...secured.args, ...args], password);
      server.tlsPort = secured.port;
      return server;
    };
    const primary = await startOne([]);
    const primaryPort = primary.tlsPort ?? primary.port;
    const replicaOf = ["--replicaof", `127.0.0.1 ${primaryPort}`];
    const replicas = await Promise.all([0, 1].map(() => startOne(replicaOf)));
    const config = [
      `sentinel monitor ${PRIMARY_NAME} 127.0.0.1 ${primaryPort} 2`,
      `sentinel down-after-milliseconds ${PRIMARY_NAME} ${DOWN_AFTER_MS}`,
      `sentinel failover-timeout ${PRIMARY_NAME} 3000`,
      ...(password === undefined ? [] : [`sentinel auth-pass ${PRIMARY_NAME} ${password}`]),
      ...(sentinelPassword === undefined
        ? []
        : [`requirepass ${sentinelPassword}`, `sentinel sentinel-pass ${sentinelPassword}`]),
    ].join("\n");
    const startSentinel = async () => {
      const secured = await tlsArguments(tls);
      const lines = [...(tls === undefined ? [] : ["tls-replication yes"]), ...configLines(secured.args)];
      const server = await RedisServer.startSentinel([config, ...lines].join("\n"), sentinelPassword);
      server.tlsPort = secured.port;
      await hurry(server);
      return server;
    };
    const sentinels = await Promise.all([0, 1, 2].map(startSentinel));
    const rig = new SentinelRig([primary, ...replicas], sentinels);
    await rig.#settle();
    return rig;
  }

  /** The server that the sentinels name as primary. */
  async primary(): Promise<RedisServer> {
    const port = await this.#primaryPort();
    const server = this.servers.find((one) => (one.tlsPort ?? one.port) === port);
    if (server === undefined) throw new Error(`the sentinels name an unknown primary, port ${port}`);
    return server;
  }

  /** Resolves with the new primary once the sentinels name another one than `old`. */
  async whenFailedOver(old: RedisServer): Promise<RedisServer> {
    await withTimeLimit(
      "the sentinels name another primary",
      async () => (await this.#primaryPort()) !== (old.tlsPort ?? old.port),
    );
    return await this.primary();
  }

  /** Has the last sentinel, which a store asks last, change the primary although nothing is wrong. */
  async failOver(): Promise<void> {
    const old = await this.primary();
    // Refused for a while after another failover, given up if no replica was heard of lately: asked until it is done.
    await withTimeLimit("the sentinels change the primary", async () => {
      await this.#running()
        .at(-1)
        ?.command("SENTINEL", "FAILOVER", PRIMARY_NAME)
        .catch(() => undefined);
      return (await this.#primaryPort()) !== (old.tlsPort ?? old.port);
    });
  }

  /** Starts every server again that was killed, and resolves once all are in step. */
  async heal(): Promise<void> {
    for (const server of [...this.servers, ...this.sentinels]) {
      server.resume();
      if (!server.isRunning) await server.restart();
    }
    for (const sentinel of this.sentinels) await hurry(sentinel);
    await this.#settle();
  }

  async stop(): Promise<void> {
    await Promise.all([...this.sentinels, ...this.servers].map((server) => server.stop()));
  }

  #asker(): RedisServer {
    const [asker] = this.#running();
    if (asker === undefined) throw new Error("no sentinel runs");
    return asker;
  }

  #running(): readonly RedisServer[] {
    return this.sentinels.filter((one) => one.isRunning && !one.isPaused);
  }

  async #primaryPort(): Promise<number> {
    const place = await this.#asker().command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", PRIMARY_NAME);
    return Array.isArray(place) ? Number(place[1]) : 0;
  }

  async #settle(): Promise<void> {
    await this.#whenKnown();
    for (const sentinel of this.sentinels) await setPeriods(sentinel, PATIENT);
  }

  async #whenKnown(): Promise<void> {
    await withTimeLimit("the sentinels know each other", async () => {
      const states = await Promise.all(this.sentinels.map((one) => one.command("SENTINEL", "CKQUORUM", PRIMARY_NAME)));
      return states.every((state) => String(state).startsWith("OK 3 usable"));
    });
    await withTimeLimit("the replicas are in step", async () => {
      const info = String(await (await this.primary()).command("INFO", "replication"));
      return (info.match(/state=online/g) ?? []).length === this.servers.length - 1;
    });
    // Sentinels learn of replicas by asking every ten seconds; a primary that dies before has no successor.
    await withTimeLimit("the sentinels know the replicas", async () => {
      const known = await Promise.all(this.sentinels.map((one) => one.command("SENTINEL", "REPLICAS", PRIMARY_NAME)));
      return known.every((replicas) => Array.isArray(replicas) && replicas.length === this.servers.length - 1);
    });
  }
}

export async function hurry(sentinel: RedisServer): Promise<void> {
  await setPeriods(sentinel, QUICK);
}

/** Redis 7 can; an older sentinel takes its time. */
async function setPeriods(sentinel: RedisServer, periods: string): Promise<void> {
  await sentinel.command("SENTINEL", "DEBUG", ...periods.split(" ")).catch(() => undefined);
}

async function withTimeLimit(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + SETTLE_MS_MAX;
  let last: unknown;
  while (performance.now() < endMs) {
    try {
      if (await isSo()) return;
    } catch (error) {
      // The servers are on their way: asked again.
      last = error;
    }
    await sleep(50); // between two looks
  }
  throw new Error(`not within ${SETTLE_MS_MAX} ms: ${what}`, { cause: last });
}
