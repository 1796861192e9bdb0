// The number of hash tags that the processes on a Redis Cluster use. It is stored in the cluster, so that two processes
// never keep one bucket under different tags. The first process writes it; a process that finds another number than its
// own is not used. The key has no lifetime; after a flush it is written again at the next check.

import type { RedisNode } from "./redis-node.ts";

const NOT_READ = "the Redis Cluster was not asked yet how many hash tags its processes use";

/** Compares this process's number with the cluster's. */
export class TagCount {
  readonly #count: number;
  readonly #key: string;
  readonly #node: () => Pick<RedisNode, "connection" | "describe"> | undefined;
  /** Undefined if the cluster has this process's number; otherwise what is wrong, in one sentence. */
  trouble: string | undefined = NOT_READ;
  /**
   * True once the cluster had this process's number. It stays true if the number differs later, because another process
   * was first after a flush; `trouble` reports that.
   */
  wasAgreed = false;

  /** `count` is REDIS_CLUSTER_TAGS of this process; `node` serves the key, if it is known which does. */
  constructor(count: number, key: string, node: () => Pick<RedisNode, "connection" | "describe"> | undefined) {
    this.#count = count;
    this.#key = key;
    this.#node = node;
  }

  /**
   * Writes the number if there isn't one, and reads it. Never rejects; if Redis can't be asked, the last result stays.
   */
  async check(): Promise<void> {
    const node = this.#node();
    const connection = node?.connection;
    if (node === undefined || connection === undefined) return;
    const count = this.#count;
    const key = this.#key;
    try {
      // A server that refuses writes, because it is full or lacks replicas, refuses this one even if there is nothing
      // to write.
      const [written, read] = await Promise.allSettled([
        connection.command("set", [key, String(count), "NX"]),
        connection.command("get", [key]),
      ]);
      if (read.status === "rejected") throw read.reason;
      const found = read.value;
      if (found === null && written.status === "rejected") throw written.reason;
      this.trouble = String(found) === String(count) ? undefined : differs(String(found), count, key);
      this.wasAgreed ||= this.trouble === undefined;
    } catch (error) {
      if (!this.wasAgreed) this.trouble = node.describe(error);
    }
  }
}

function differs(found: string, count: number, key: string): string {
  return `REDIS_CLUSTER_TAGS is ${count} here, but ${found.slice(0, 20)} for the processes that use the Redis Cluster (its key ${key}): limits would be counted twice`;
}
