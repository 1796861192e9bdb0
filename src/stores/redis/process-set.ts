// The processes that share the Redis, in one sorted set, scored by when each reported itself, by the server's time. One set
// rather than a key for each process: counting keys by pattern walks the whole key space, and in a cluster the keys would
// lie on all nodes; a set is one key, read in one step. It has no lifetime: a Redis that is full evicts keys that have one
// (volatile-*) without touching it. The last process that ends properly empties it, which removes it.

import type { ProcessPlace } from "../batching/membership.ts";
import type { ProcessRegister } from "../batching/process-count.ts";
import type { RedisConnection } from "./connect.ts";

interface ProcessSetOptions {
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
      // Earlier versions gave it a lifetime.
      connection.command("persist", [key]),
    ]);
    const [added, , counted] = replies;
    if (added.status !== "fulfilled" || counted.status !== "fulfilled" || !Array.isArray(counted.value))
      return undefined;
    const ids = counted.value.map(String).sort();
    const index = ids.indexOf(id);
    return index < 0 ? undefined : { count: ids.length, index, isNew: Number(added.value) === 1 };
  }

  async leave(id: string): Promise<void> {
    const { connection, key } = this.#options;
    await Promise.allSettled([connection()?.command("zrem", [key, id])]);
  }
}
