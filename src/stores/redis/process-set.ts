// The processes that share the Redis, in one sorted set; the score is the server's time of their last report. One set and not a key for each
// process, because counting keys by pattern walks the whole key space, and in a cluster the keys would lie on all nodes. The set has no
// lifetime: with a volatile-* policy a full Redis evicts keys with a lifetime, even if they are in use. The last process to end properly
// empties the set, which removes it.

import type { ProcessPlace } from "../batching/membership.ts";
import type { ProcessRegister } from "../batching/process-count.ts";
import type { RedisConnection } from "./connect.ts";

interface ProcessSetOptions {
  readonly key: string;
  /** The present connection, if there is one. */
  readonly connection: () => RedisConnection | undefined;
  /** The server's time in milliseconds. */
  readonly serverTimeMs: () => number;
}

/** A process's place is that of its id in sorted order. */
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
