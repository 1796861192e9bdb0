// The store that keeps buckets in one Redis, shared by as many processes as there are: a node, and the count of processes.

import { completeOptions } from "../batching/options.ts";
import { ProcessCount } from "../batching/process-count.ts";
import { SharedStore } from "../batching/shared-store.ts";
import type { RedisTarget } from "./connect.ts";
import { ProcessSet } from "./process-set.ts";
import { RedisNode, type RedisOptions } from "./redis-node.ts";
import { loadScripts } from "./scripts.ts";
import { SentinelFinder, type SentinelTarget } from "./sentinel-finder.ts";
import { fixedServer } from "./server-finder.ts";

/** Options of a Redis store; what is absent gets the default named. With an injected time keys live a minute longer. */
export interface RedisStoreOptions extends RedisOptions {
  /** One server, or the primary that sentinels know. */
  readonly target: RedisTarget | SentinelTarget;
}

/** Opens the store; it connects by itself and keeps at it. Never throws because Redis is away: `trouble` says so. */
export function openRedisStore(options: RedisStoreOptions): SharedStore<RedisNode> {
  const { target, keyPrefix = "", jitterSecondsMax = 0 } = options;
  const complete = completeOptions(options);
  const node: RedisNode = new RedisNode({
    ...complete,
    finder: "sentinels" in target ? new SentinelFinder(target) : fixedServer(target),
    scripts: loadScripts(),
    // Of two hash slots, so that a node of a cluster shows as one at once and not with some later call.
    selfTestKeys: () => [`${keyPrefix}headgate:self-test`, `${keyPrefix}headgate:self-test:2`],
    jitterSecondsMax,
    onUp: () => void processes.beat(),
  });
  const set = new ProcessSet({
    key: `${keyPrefix}headgate:processes`,
    connection: () => node.connection,
    serverTimeMs: () => node.serverTimeMs(),
  });
  const processes = new ProcessCount(set, complete.clock);
  return new SharedStore(node, processes);
}
