// Follows which primary serves which slots of a Redis Cluster: asks a node at intervals, and sooner when a call has
// failed or was redirected. The owner decides what to do with the answer.

import { errorMessage } from "../../base/thrown.ts";
import type { RedisAccess, TcpAddress } from "../../settings/store-address.ts";
import { withTimeLimit } from "../batching/connecting.ts";
import { SLOTS } from "./cluster-tags.ts";
import { openConnection, type RedisConnection } from "./connect.ts";
import { describeTrouble } from "./connect-trouble.ts";
import { firstAnswer } from "./first-answer.ts";

/** Interval while the cluster is well. */
const STEADY_MS = 10_000;
/** Interval while it is not. */
const TROUBLED_MS = 200;
/** Until the next question after a call failed or was redirected. */
const SOON_MS = 50;
/** The same while a node hands over: others hear of its successor some ms apart, and its calls are tried for 30 ms. */
const HAND_OVER_MS = 5;
/** Most nodes asked in one round. */
const ASKED_MAX = 16;

/** Consecutive slots of one primary. */
export interface SlotRange {
  readonly first: number;
  readonly last: number;
  readonly primary: TcpAddress;
}

/** Addresses of some nodes, and how to reach every node. */
export interface ClusterTarget extends RedisAccess {
  readonly seeds: readonly TcpAddress[];
}

/** A node that is used; it can be asked while its connection is up. */
interface KnownNode {
  readonly address: TcpAddress;
  readonly node: { readonly connection: RedisConnection | undefined };
}

interface TopologyOptions {
  /** The cluster; its seeds are asked too if no open node answers. */
  readonly target: ClusterTarget;
  readonly nodes: () => readonly KnownNode[];
  readonly onSlots: (ranges: readonly SlotRange[]) => void;
  /** Whether every slot is served by a connected node. */
  readonly isWell: () => boolean;
}

interface View {
  readonly epoch: number;
  readonly ranges: readonly SlotRange[];
}

/**
 * A node's view has a lower epoch than the last one, or lacks slots: the node was away, is cut off, or has just handed
 * its slots over.
 */
class StaleView extends Error {
  readonly view: View;

  constructor(view: View) {
    super("an older view of the cluster, or one without some slots");
    this.view = view;
  }
}

/** Asks for the slots again and again. */
export class ClusterTopology {
  readonly #options: TopologyOptions;
  #timer: NodeJS.Timeout | undefined;
  #dueMs = 0;
  #isAsking = false;
  #isWanted = false;
  #isClosed = false;
  #epoch = 0;
  #turn = 0;
  #trouble: string | undefined = "the slots of the Redis Cluster are not known yet";

  constructor(options: TopologyOptions) {
    this.#options = options;
  }

  /** Why the last question had no answer; undefined if it had one. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** Begins to ask; to be called once. */
  start(): void {
    void this.#ask();
  }

  /** Asks soon, unless trouble has a question due already. Cheap, because every failed take calls it. */
  askSoon(): void {
    if (this.#isAsking) this.#isWanted = true;
    else if (this.#dueMs > TROUBLED_MS) this.#schedule(SOON_MS);
  }

  /** Asks within 5 ms: a node is handing over, and calls wait until the new one is known. */
  askAtOnce(): void {
    if (this.#isAsking) this.#isWanted = true;
    else if (this.#dueMs > HAND_OVER_MS) this.#schedule(HAND_OVER_MS);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #schedule(ms: number): void {
    if (this.#isClosed) return;
    clearTimeout(this.#timer);
    this.#dueMs = ms;
    this.#timer = setTimeout(() => void this.#ask(), ms * (0.75 + Math.random() / 4)).unref();
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    this.#isWanted = false;
    try {
      const view = await this.#firstView();
      if (this.#isClosed) return;
      this.#epoch = view.epoch;
      this.#trouble = undefined;
      this.#options.onSlots(view.ranges);
    } catch (error) {
      this.#trouble = errorMessage(error);
    } finally {
      this.#isAsking = false;
      this.#schedule(
        this.#isWanted || !this.#options.isWell() || this.#trouble !== undefined ? TROUBLED_MS : STEADY_MS,
      );
    }
  }

  /**
   * The first view that has all slots and is not older than the last one; if there isn't one, the latest of the others.
   */
  async #firstView(): Promise<View> {
    const { target, nodes } = this.#options;
    const open = nodes().flatMap(({ address, node: { connection } }) =>
      connection === undefined ? [] : [{ address, connection }],
    );
    // Begins with another node each time, so that a node that is cut off is not the only one heard.
    this.#turn++;
    const first = this.#turn % Math.max(1, open.length);
    const rotated = [...open.slice(first), ...open.slice(0, first)];
    const asked = new Set(open.map(({ address }) => nodeNameOf(address)));
    const others = target.seeds.filter((seed) => !asked.has(nodeNameOf(seed)));
    const askers = [
      ...rotated.map(
        ({ address, connection }) =>
          () =>
            this.#askOne(address, connection),
      ),
      ...others.map((address) => () => this.#askOne(address)),
    ];
    let latest: View | undefined;
    try {
      return await firstAnswer(askers.slice(0, ASKED_MAX), (error) => {
        if (error instanceof StaleView && error.view.epoch >= (latest?.epoch ?? 0)) latest = error.view;
      });
    } catch (error) {
      // Slots that no view has are served by nobody. If all are older, there must be another cluster at these addresses
      // now.
      if (latest !== undefined) return latest;
      throw error;
    }
  }

  /** The view of a node, over its open connection or over one for this question alone. */
  async #askOne(address: TcpAddress, open?: RedisConnection): Promise<View> {
    const target = { ...this.#options.target, address };
    let connection = open;
    let view: View;
    try {
      connection ??= await openConnection(target, () => undefined);
      const replies = Promise.all([
        connection.command("cluster", ["slots"]),
        // A user without the right to run it gets epoch 0, and every view counts as new.
        connection.command("cluster", ["info"]).catch(() => ""),
      ]);
      const [slots, info] = await withTimeLimit(target.connectTimeoutMs, replies);
      view = { epoch: readEpoch(info), ranges: readSlots(slots, address) };
    } catch (error) {
      throw new Error(describeTrouble(error, target), { cause: error });
    } finally {
      if (open === undefined) connection?.drop();
    }
    const served = view.ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0);
    if (view.epoch < this.#epoch || served < SLOTS) throw new StaleView(view);
    return view;
  }
}

/** Most ranges in a reply: one per slot. */
const RANGES_MAX = SLOTS;

/**
 * The ranges of a CLUSTER SLOTS reply. `asked` is the address of a node that the reply names without one. Throws
 * TypeError.
 */
export function readSlots(reply: unknown, asked: TcpAddress): SlotRange[] {
  if (!Array.isArray(reply) || reply.length > RANGES_MAX)
    throw new TypeError("CLUSTER SLOTS returned an unexpected reply");
  return reply.map((entry: unknown) => {
    const [first, last, node]: unknown[] = Array.isArray(entry) ? entry : [];
    const [host, port]: unknown[] = Array.isArray(node) ? node : [];
    if (typeof first !== "number" || typeof last !== "number" || first < 0 || first > last || last >= SLOTS)
      throw new TypeError("CLUSTER SLOTS named invalid slots");
    return { first, last, primary: addressOf(host, port, asked) };
  });
}

/** The epoch of a CLUSTER INFO reply; a later view of the cluster has a higher one. 0 if the reply has none. */
export function readEpoch(reply: unknown): number {
  const epoch = /^cluster_current_epoch:(\d{1,15})/m.exec(String(reply))?.[1];
  return epoch === undefined ? 0 : Number(epoch);
}

/** The target of a MOVED or ASK error from the node at `asked`; undefined if the error is neither. */
export function readRedirection(
  message: string,
  asked: TcpAddress,
): { readonly isAsk: boolean; readonly slot: number; readonly address: TcpAddress } | undefined {
  const [, word, slotText, host, port] = /^(MOVED|ASK) (\d{1,5}) (.*):(\d{1,5})$/.exec(message) ?? [];
  const slot = Number(slotText);
  if (word === undefined || !(slot < SLOTS)) return undefined;
  return { isAsk: word === "ASK", slot, address: addressOf(host, Number(port), asked) };
}

/** The name of a node: its address. */
export function nodeNameOf({ host, port }: TcpAddress): string {
  return `${host}:${port}`;
}

function addressOf(host: unknown, port: unknown, asked: TcpAddress): TcpAddress {
  const text = host === null || host === undefined ? "" : String(host);
  // A node that does not know its own address sends an empty string or a question mark.
  const known = text === "" || text === "?" ? asked.host : text;
  if (typeof port !== "number" || port < 1 || port > 65_535) throw new TypeError("a node of the cluster has no port");
  return { kind: "tcp", host: known, port };
}
