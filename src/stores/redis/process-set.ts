// The processes that share the Redis, in one sorted set; the score is the server's time of their last report. One set and not a key for each
// process, because counting keys by pattern walks the whole key space, and in a cluster the keys would lie on all nodes. The set has no
// lifetime: with a volatile-* policy a full Redis evicts keys with a lifetime, even if they are in use. The last process to end properly
// empties the set, which removes it.

import type { ProcessRegister } from "../batching/process-count.ts";
import type { RedisNode } from "./redis-node.ts";

/** `nodeOf` finds the node that keeps the set now, if it is known. */
export function processSet(keyPrefix: string, nodeOf: (key: string) => RedisNode | undefined): ProcessRegister {
  const key = `${keyPrefix}headgate:processes`;
  return {
    async report(id, goneAfterMs) {
      const node = nodeOf(key);
      const connection = node?.connection;
      if (node === undefined || connection === undefined) return undefined;
      const nowMs = node.serverTimeMs();
      const replies = await Promise.allSettled([
        connection.command("zadd", [key, String(nowMs), id]),
        connection.command("zremrangebyscore", [key, "-inf", String(nowMs - goneAfterMs)]),
        connection.command("zcard", [key]),
      ]);
      const [added, , counted] = replies;
      if (added.status !== "fulfilled" || counted.status !== "fulfilled") return undefined;
      return { count: Number(counted.value), isNew: Number(added.value) === 1 };
    },
    async leave(id) {
      await Promise.allSettled([nodeOf(key)?.connection?.command("zrem", [key, id])]);
    },
  };
}
