// A real Redis Cluster: three primaries with a replica each, on free ports; slots can be moved, nodes killed and paused.

import { setTimeout as sleep } from "node:timers/promises";
import type { ClusterTarget } from "../../src/stores/redis/cluster-topology.ts";
import { freePort, RedisServer, type ServerTls, tlsArguments } from "./redis-server.ts";

const NODE_TIMEOUT_MS = 1_000;
const PRIMARIES = 3;
const SLOTS = 16_384;
const SETTLE_MS_MAX = 60_000;
const KEYS_PER_MOVE = 100;

export interface ClusterRigOptions {
  readonly password?: string;
  /** False: primaries alone, which start quicker. */
  readonly replicas?: boolean;
  /** Nodes that join without slots, the last ones. Without replicas only. */
  readonly spares?: number;
  readonly args?: readonly string[];
  /** Has them speak TLS with each other and on a port for it, in addition to the plain one that the rig itself uses. */
  readonly tls?: ServerTls;
}

/** The nodes, to be killed and paused one by one. */
export class ClusterRig {
  /** The first three were the primaries at the start, each with an equal share of the slots in order. */
  readonly nodes: readonly RedisServer[];
  readonly #ids = new Map<RedisServer, string>();

  private constructor(nodes: readonly RedisServer[]) {
    this.nodes = nodes;
  }

  /** Resolves once all nodes agree that all is well. */
  static async start(options: ClusterRigOptions = {}): Promise<ClusterRig> {
    const { password, replicas = true, spares = 0, args = [], tls } = options;
    const count = replicas ? 2 * PRIMARIES : PRIMARIES + spares;
    const nodes = await Promise.all(Array.from({ length: count }, () => startNode(args, password, tls)));
    const rig = new ClusterRig(nodes);
    try {
      await rig.#join(replicas);
    } catch (error) {
      await rig.stop();
      throw error;
    }
    return rig;
  }

  /** How a store reaches it, by one node that runs. */
  target(overrides: Partial<ClusterTarget> = {}): ClusterTarget {
    const node = this.#running()[0];
    const seeds =
      node === undefined ? [] : [{ kind: "tcp", host: "127.0.0.1", port: node.tlsPort ?? node.port } as const];
    return {
      seeds,
      database: 0,
      login: undefined,
      loginFile: undefined,
      tls: undefined,
      connectTimeoutMs: 2_000,
      ...overrides,
    };
  }

  /** The node that serves the slot now, by what the nodes that run say. */
  async ownerOf(slot: number): Promise<RedisServer> {
    const ranges = await this.#ranges();
    const owner = this.nodes.find((node) => isOwnerIn(ranges, slot, node));
    if (owner === undefined) throw new Error(`nobody serves slot ${slot}`);
    return owner;
  }

  /** Replicas of a primary. */
  async replicasOf(primary: RedisServer): Promise<RedisServer[]> {
    const range = (await this.#ranges()).find(({ port }) => port === primary.port);
    return (range?.replicaPorts ?? []).map((port) => this.#nodeAt(port));
  }

  /** Moves a slot with its keys while the cluster serves; between two keys `pauseMs` may pass, so that ASK is seen. */
  async moveSlot(slot: number, to: RedisServer, pauseMs = 0): Promise<void> {
    const from = await this.ownerOf(slot);
    if (from === to) return;
    await to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", this.#idOf(from));
    await from.command("CLUSTER", "SETSLOT", slot, "MIGRATING", this.#idOf(to));
    for (;;) {
      const keys = await from.command("CLUSTER", "GETKEYSINSLOT", slot, KEYS_PER_MOVE);
      if (!Array.isArray(keys) || keys.length === 0) break;
      for (const key of keys) {
        await from.command("MIGRATE", "127.0.0.1", to.port, String(key), 0, 5_000, "REPLACE");
        if (pauseMs > 0) await sleep(pauseMs); // the time in which the slot lies on two nodes
      }
    }
    await to.command("CLUSTER", "SETSLOT", slot, "NODE", this.#idOf(to));
    await from.command("CLUSTER", "SETSLOT", slot, "NODE", this.#idOf(to));
    // A slot that moves on before all have heard of this move would have two owners in some eyes.
    await withTimeLimit("all nodes have heard of the move", async () => {
      const infos = await Promise.all(this.#running().map((node) => node.command("CLUSTER", "INFO")));
      const epochs = new Set(infos.map((info) => /cluster_current_epoch:(\d+)/.exec(String(info))?.[1]));
      const views = await Promise.all(this.#running().map((node) => node.command("CLUSTER", "SLOTS")));
      return epochs.size === 1 && views.every((view) => isOwnerIn(readRanges(view), slot, to));
    });
  }

  /** Has a replica take over from its primary although nothing is wrong; resolves with the new primary. */
  async failOver(primary: RedisServer): Promise<RedisServer> {
    const [replica] = await this.replicasOf(primary);
    if (replica === undefined) throw new Error("the primary has no replica");
    await replica.command("CLUSTER", "FAILOVER");
    await withTimeLimit("the replica serves", async () => String(await replica.command("ROLE")).startsWith("master"));
    return replica;
  }

  /** Once the primary of the first slots is a replica, it knows of nobody that serves them, for so long. */
  async forgetSlots(primary: RedisServer, ms: number): Promise<void> {
    let endMs = Number.POSITIVE_INFINITY;
    while (performance.now() < endMs) {
      if (!String(await primary.command("ROLE")).startsWith("slave")) continue;
      if (endMs === Number.POSITIVE_INFINITY) endMs = performance.now() + ms;
      // Fails for slots that are forgotten already.
      await primary.command("CLUSTER", "DELSLOTSRANGE", 0, Math.floor(SLOTS / PRIMARIES) - 1).catch(() => undefined);
    }
  }

  /** Resolves once some other node serves what `lost` served, by what all other nodes say. */
  async whenTakenOver(lost: RedisServer): Promise<void> {
    await withTimeLimit("another node serves the slots", async () => {
      const ranges = await this.#ranges(lost);
      return ranges.every(({ port }) => port !== lost.port) && coverAll(ranges);
    });
  }

  /** Resolves once every node that runs says that all is well. */
  async whenWell(): Promise<void> {
    await withTimeLimit("the cluster is well", async () => {
      const states = await Promise.all(this.#running().map((node) => node.command("CLUSTER", "INFO")));
      return states.every((state) => String(state).includes("cluster_state:ok"));
    });
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
  }

  async #join(replicas: boolean): Promise<void> {
    for (const node of this.nodes) this.#ids.set(node, String(await node.command("CLUSTER", "MYID")));
    for (const [index, node] of this.nodes.entries()) {
      // Epochs given by hand: nodes that meet with equal ones take seconds to settle it.
      await node.command("CLUSTER", "SET-CONFIG-EPOCH", index + 1);
    }
    // Every pair by hand: gossip alone takes seconds to reach all.
    for (const [index, node] of this.nodes.entries()) {
      const place = ["127.0.0.1", node.port, await busPortOf(node)];
      for (const other of this.nodes.slice(index + 1)) await other.command("CLUSTER", "MEET", ...place);
    }
    for (let i = 0; i < PRIMARIES; i++) {
      const from = Math.floor((i * SLOTS) / PRIMARIES);
      const to = Math.floor(((i + 1) * SLOTS) / PRIMARIES) - 1;
      await this.nodes[i]?.command("CLUSTER", "ADDSLOTSRANGE", from, to);
    }
    await withTimeLimit("the nodes know each other", async () => {
      const known = await Promise.all(this.nodes.map((node) => node.command("CLUSTER", "INFO")));
      return known.every((text) => String(text).includes(`cluster_known_nodes:${this.nodes.length}`));
    });
    for (let i = PRIMARIES; replicas && i < this.nodes.length; i++) {
      const [node, primary] = [this.nodes[i], this.nodes[i - PRIMARIES]];
      if (node !== undefined && primary !== undefined)
        await withTimeLimit("a replica follows", async () => {
          return (await node.command("CLUSTER", "REPLICATE", this.#idOf(primary))) === "OK";
        });
    }
    await this.whenWell();
    if (replicas) await this.#whenInStep();
  }

  async #whenInStep(): Promise<void> {
    await withTimeLimit("the replicas are in step", async () => {
      const infos = await Promise.all(this.nodes.slice(PRIMARIES).map((node) => node.command("INFO", "replication")));
      return infos.every((info) => String(info).includes("master_link_status:up"));
    });
    await withTimeLimit("the nodes know the replicas", async () => {
      const views = await Promise.all(this.nodes.map((node) => node.command("CLUSTER", "SLOTS")));
      return views.every((view) => readRanges(view).every(({ replicaPorts }) => replicaPorts.length === 1));
    });
  }

  async #ranges(except?: RedisServer): Promise<Range[]> {
    const node = this.#running().find((one) => one !== except);
    return readRanges(await node?.command("CLUSTER", "SLOTS"));
  }

  #running(): RedisServer[] {
    return this.nodes.filter((node) => node.isRunning && !node.isPaused);
  }

  #idOf(node: RedisServer): string {
    return this.#ids.get(node) ?? "";
  }

  #nodeAt(port: number): RedisServer {
    const node = this.nodes.find((one) => one.port === port);
    if (node === undefined) throw new Error(`no node of the rig has port ${port}`);
    return node;
  }
}

interface Range {
  readonly first: number;
  readonly last: number;
  readonly port: number;
  readonly replicaPorts: readonly number[];
}

function isOwnerIn(ranges: readonly Range[], slot: number, node: RedisServer): boolean {
  return ranges.some(({ first, last, port }) => first <= slot && slot <= last && port === node.port);
}

function readRanges(reply: unknown): Range[] {
  if (!Array.isArray(reply)) return [];
  return reply.map(([first, last, primary, ...replicas]) => ({
    first,
    last,
    port: primary[1],
    replicaPorts: replicas.map(([, port]: readonly [string, number]) => port),
  }));
}

function coverAll(ranges: readonly Range[]): boolean {
  return ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0) === SLOTS;
}

async function startNode(
  args: readonly string[],
  password: string | undefined,
  tls: ServerTls | undefined,
): Promise<RedisServer> {
  const cluster = `--cluster-enabled yes --cluster-config-file nodes.conf --cluster-node-timeout ${NODE_TIMEOUT_MS}`;
  // The bus would take the port plus 10,000, which may be none.
  // A replica counts for nothing until the first byte was replicated, be it a ping.
  const quick = "--repl-diskless-sync-delay 0 --repl-ping-replica-period 1";
  const line = [...`${cluster} ${quick}`.split(" "), "--cluster-port", String(await freePort())];
  const auth = password === undefined ? [] : ["--masterauth", password];
  const secured = await tlsArguments(tls);
  const bus = tls === undefined ? [] : ["--tls-cluster", "yes", "--tls-replication", "yes"];
  const server = await RedisServer.start([...line, ...auth, ...secured.args, ...bus, ...args], password);
  server.tlsPort = secured.port;
  return server;
}

async function busPortOf(node: RedisServer): Promise<number> {
  const reply = await node.command("CONFIG", "GET", "cluster-port");
  return Array.isArray(reply) ? Number(reply[1]) : 0;
}

async function withTimeLimit(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + SETTLE_MS_MAX;
  let last: unknown;
  while (performance.now() < endMs) {
    try {
      if (await isSo()) return;
    } catch (error) {
      // The nodes are on their way: asked again.
      last = error;
    }
    await sleep(30); // between two looks
  }
  throw new Error(`not within ${SETTLE_MS_MAX} ms: ${what}`, { cause: last });
}
