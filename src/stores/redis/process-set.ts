// The processes that share the Redis, in one sorted set, scored by when each reported itself, by the server's time. One set
// rather than a key for each process: counting keys by pattern walks the whole key space, and in a cluster the keys would
// lie on all nodes; a set is one key, read in one step.

import type { ProcessPlace, ProcessRegister } from "../batching/process-count.ts";
import type { RedisConnection } from "./connect.ts";

const KEY_LIFETIME_MS = 60_000;

export interface ProcessSetOptions {
  readonly key: string;
  /** The connection, if there is one now. */
  readonly connection: () => RedisConnection | undefined;
  /** The server's time in milliseconds. */
  readonly serverTimeMs: () => number;
}

/** Places are in the order of the ids. */
export class ProcessSet implements ProcessRegister {
  readonly #options: ProcessSetOptions;

  constructor(options: ProcessSetOptions) {
    this.#options = options;
  }

  async report(id: string, goneAfterMs: number): Promise<ProcessPlace | undefined> {
    const connection = this.#options.connection();
    if (connection === undefined) return undefined;
    const { key } = this.#options;
    const nowMs = this.#options.serverTimeMs();
    const replies = await Promise.allSettled([
      connection.command("zadd", [key, String(nowMs), id]),
      connection.command("zremrangebyscore", [key, "-inf", String(nowMs - goneAfterMs)]),
      connection.command("zrange", [key, "0", "-1"]),
      connection.command("pexpire", [key, String(KEY_LIFETIME_MS)]),
    ]);
    const counted = replies[2];
    if (counted.status !== "fulfilled" || !Array.isArray(counted.value)) return undefined;
    const ids = counted.value.map(String).sort();
    const index = ids.indexOf(id);
    return index < 0 ? undefined : { count: ids.length, index };
  }

  async leave(id: string): Promise<void> {
    const { connection, key } = this.#options;
    await Promise.allSettled([connection()?.command("zrem", [key, id])]);
  }
}
