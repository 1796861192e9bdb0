// How many hash tags the processes on a Redis Cluster use: the number stands in the cluster, so that two processes never keep
// one bucket twice. The first one writes it; one that reads another number than its own is not put to use. It has no lifetime,
// and what was flushed is written again with the next look.

import type { RedisConnection } from "./connect.ts";

interface TagCountOptions {
  /** REDIS_CLUSTER_TAGS of this process. */
  readonly count: number;
  readonly key: string;
  /** To the node that serves the key, if there is one now. */
  readonly connection: () => RedisConnection | undefined;
  /** What was found has changed. */
  readonly onNews: () => void;
  /** Why Redis refused, as a sentence. */
  readonly describe: (error: unknown) => string;
}

const NOT_READ = "the Redis Cluster was not asked yet how many hash tags its processes use";

/** Compares, once asked to. */
export class TagCount {
  readonly #options: TagCountOptions;
  #trouble: string | undefined = NOT_READ;
  #wasAgreed = false;

  constructor(options: TagCountOptions) {
    this.#options = options;
  }

  /**
   * True once the cluster had this process's number. A process in use stays in use when the number is another one later,
   * because a flush let somebody else be first: `trouble` says so.
   */
  get wasAgreed(): boolean {
    return this.#wasAgreed;
  }

  /** Undefined while the cluster has this process's number, otherwise what is wrong, in one sentence. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** Writes the number unless there is one, and reads it. Never rejects; what can't be asked now stays as it was. */
  async look(): Promise<void> {
    const { count, key, connection, onNews, describe } = this.#options;
    const to = connection();
    if (to === undefined) return;
    const before = this.#trouble;
    try {
      const [, found] = await Promise.all([to.command("set", [key, String(count), "NX"]), to.command("get", [key])]);
      this.#trouble = String(found) === String(count) ? undefined : differs(String(found), count, key);
      this.#wasAgreed ||= this.#trouble === undefined;
    } catch (error) {
      if (!this.#wasAgreed) this.#trouble = describe(error);
    }
    if (this.#trouble !== before) onNews();
  }
}

function differs(found: string, count: number, key: string): string {
  return `REDIS_CLUSTER_TAGS is ${count} here, but ${found.slice(0, 20)} for the processes that use the Redis Cluster (its key ${key}): limits would be counted twice`;
}
