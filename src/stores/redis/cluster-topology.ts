// Follows which primary serves which slots of a Redis Cluster: asks a node at intervals, and sooner when a call has failed or was
// redirected. The owner decides what to do with the answer.

import { errorMessage } from "../../engine/base/thrown.ts";
import { withTimeLimit } from "../batching/time-limit.ts";
import type { RedisAccess, TcpAddress } from "../store-address.ts";
import { readEpoch, readSlots, type SlotRange } from "./cluster-slots.ts";
import { openConnection, type RedisConnection } from "./connect.ts";
import { describeTrouble } from "./connect-trouble.ts";
import { firstAnswer } from "./first-answer.ts";

/** Interval while the cluster is well. */
const STEADY_MS = 10_000;
/** Interval while it is not. */
const TROUBLED_MS = 200;
/** Shortest time before the next question. */
const PAUSE_MS_MIN = 50;
/** Most nodes asked in one round. */
const ASKED_MAX = 16;

/** Addresses of some nodes, and how to reach every node. */
export interface ClusterTarget extends RedisAccess {
  readonly seeds: readonly TcpAddress[];
}

/** A node that can be asked over its open connection. */
export interface OpenNode {
  readonly address: TcpAddress;
  readonly connection: RedisConnection;
}

interface TopologyOptions {
  /** The cluster; its seeds are asked too if no open node answers. */
  readonly target: ClusterTarget;
  readonly openNodes: () => OpenNode[];
  readonly onSlots: (ranges: readonly SlotRange[]) => void;
  /** Whether every slot is served by a connected node. */
  readonly isWell: () => boolean;
}

interface View {
  readonly epoch: number;
  readonly ranges: readonly SlotRange[];
}

/** A node's view has a lower epoch than the last one: the node was away, or is cut off. */
class StaleView extends Error {
  readonly view: View;

  constructor(view: View) {
    super("an older view of the cluster");
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
  #trouble: string | undefined = "the nodes of the Redis Cluster have not been asked for their slots yet";

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

  /** Asks soon, unless a question is due already. Cheap, because every failed take calls it. */
  askSoon(): void {
    if (this.#isAsking) this.#isWanted = true;
    else if (this.#dueMs > TROUBLED_MS) this.#schedule(PAUSE_MS_MIN);
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

  /** The first view that is not older than the last one; if there is none, the latest of the older ones. */
  async #firstView(): Promise<View> {
    const { target, openNodes } = this.#options;
    const open = openNodes();
    // Begins with another node each time, so that a node that is cut off is not the only one heard.
    this.#turn++;
    const rotated = open.map((_, index) => open[(index + this.#turn) % open.length] as OpenNode);
    const asked = new Set(open.map(({ address }) => `${address.host}:${address.port}`));
    const others = target.seeds.filter(({ host, port }) => !asked.has(`${host}:${port}`));
    const askers = [
      ...rotated.map((node) => () => this.#askOne(node.address, node.connection)),
      ...others.map((address) => () => this.#connectAndAsk(address)),
    ];
    let latest: View | undefined;
    try {
      return await firstAnswer(askers.slice(0, ASKED_MAX), (error) => {
        if (error instanceof StaleView && error.view.epoch >= (latest?.epoch ?? 0)) latest = error.view;
      });
    } catch (error) {
      // All views are older, so there must be another cluster at these addresses now.
      if (latest !== undefined) return latest;
      throw error;
    }
  }

  async #connectAndAsk(address: TcpAddress): Promise<View> {
    const target = { ...this.#options.target, address };
    let connection: RedisConnection | undefined;
    try {
      connection = await openConnection(target, () => undefined);
      return await this.#askOne(address, connection);
    } catch (error) {
      if (error instanceof StaleView || error instanceof UnusableView) throw error;
      throw new UnusableView(describeTrouble(error, target), { cause: error });
    } finally {
      connection?.drop();
    }
  }

  async #askOne(address: TcpAddress, connection: RedisConnection): Promise<View> {
    const { target } = this.#options;
    try {
      const replies = Promise.all([
        connection.command("cluster", ["slots"]),
        // A user without the right to run it gets epoch 0, and every view counts as new.
        connection.command("cluster", ["info"]).catch(() => ""),
      ]);
      const [slots, info] = await withTimeLimit(target.connectTimeoutMs, replies);
      const view = { epoch: readEpoch(info), ranges: readSlots(slots, address) };
      if (view.epoch < this.#epoch) throw new StaleView(view);
      return view;
    } catch (error) {
      if (error instanceof StaleView) throw error;
      throw new UnusableView(describeTrouble(error, { ...target, address }), { cause: error });
    }
  }
}

/** A node did not answer; the message is a sentence without its full stop. */
class UnusableView extends Error {}
