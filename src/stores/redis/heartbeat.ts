// How many processes share the Redis: each reports itself every few seconds in one sorted set, scored by the server's
// time, and counts those that reported lately. One set rather than a key for each process: counting keys by pattern
// walks the whole key space, and in a cluster the keys would lie on all nodes; a set is one key, read in one step.

import { randomUUID } from "node:crypto";
import type { RedisConnection } from "./connect.ts";

const BEAT_MS = 3_000;
/** Processes that start together count each other this soon. */
const SECOND_BEAT_MS = 300;
/** A process that has missed three beats is taken as gone. */
const GONE_AFTER_MS = 10_000;
const KEY_LIFETIME_MS = 60_000;

export interface HeartbeatOptions {
  readonly key: string;
  /** The connection, if there is one now. */
  readonly connection: () => RedisConnection | undefined;
  /** The server's time in milliseconds. */
  readonly serverTimeMs: () => number;
}

/** Reports this process once started. Failures are not reported: the count stays what it was. */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  readonly #id = randomUUID();
  #timer: NodeJS.Timeout | undefined;
  #secondBeat: NodeJS.Timeout | undefined;
  #count = 1;
  #index = -1;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** Live processes by the last count, this one included. */
  get count(): number {
    return this.#count;
  }

  /** Place of this process among them, in the order of their ids; -1 until the first count. */
  get index(): number {
    return this.#index;
  }

  get isStarted(): boolean {
    return this.#timer !== undefined;
  }

  start(): void {
    if (this.#timer !== undefined) return;
    this.#timer = setInterval(() => void this.beat(), BEAT_MS);
    this.#timer.unref();
    this.#secondBeat = setTimeout(() => void this.beat(), SECOND_BEAT_MS).unref();
    void this.beat();
  }

  /** Reports this process and counts. Does nothing while not started or not connected. */
  async beat(): Promise<void> {
    const connection = this.#options.connection();
    if (connection === undefined || !this.isStarted) return;
    const { key } = this.#options;
    const nowMs = this.#options.serverTimeMs();
    const replies = await Promise.allSettled([
      connection.command("zadd", [key, String(nowMs), this.#id]),
      connection.command("zremrangebyscore", [key, "-inf", String(nowMs - GONE_AFTER_MS)]),
      connection.command("zrange", [key, "0", "-1"]),
      connection.command("pexpire", [key, String(KEY_LIFETIME_MS)]),
    ]);
    const counted = replies[2];
    if (counted.status !== "fulfilled" || !Array.isArray(counted.value)) return;
    const ids = counted.value.map(String).sort();
    const index = ids.indexOf(this.#id);
    if (index < 0) return;
    this.#index = index;
    this.#count = ids.length;
  }

  /** Takes this process out of the set, so that the others need not wait for its absence to show. */
  async stop(): Promise<void> {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    clearTimeout(this.#secondBeat);
    this.#timer = undefined;
    const connection = this.#options.connection();
    if (connection !== undefined) await Promise.allSettled([connection.command("zrem", [this.#options.key, this.#id])]);
  }
}
