// The store that keeps buckets in one Redis, which any number of processes share: a node, and the count of processes.

import { completeOptions } from "../batching/options.ts";
import { SharedStore } from "../batching/shared-store.ts";
import type { AsideOptions } from "./aside.ts";
import type { RedisTarget } from "./connect.ts";
import { redisProcessRegister } from "./process-register.ts";
import { fixedServer } from "./redis-link.ts";
import { RedisNode, type RedisOptions } from "./redis-node.ts";
import { loadScripts } from "./scripts.ts";
import { SentinelFinder, type SentinelTarget } from "./sentinel-finder.ts";

/** Options of a Redis store. With an injected time keys live a minute longer. */
interface RedisStoreOptions extends RedisOptions {
  /** One server, or a primary that sentinels know. */
  readonly target: RedisTarget | SentinelTarget;
}

/** Opens the store, which connects in the background. Never throws because Redis is away; `trouble` reports it. */
export function openRedisStore(options: RedisStoreOptions): SharedStore<RedisNode, AsideOptions> {
  const { target, keyPrefix = "", jitterSecondsMax = 0 } = options;
  const complete = completeOptions(options);
  const node = new RedisNode({
    ...complete,
    finder: "sentinels" in target ? new SentinelFinder(target) : fixedServer(target),
    scripts: loadScripts(),
    // The keys have different hash slots, so that a node of a cluster is noticed now and not at some later call.
    selfTestKeys: () => [`${keyPrefix}headgate:self-test`, `${keyPrefix}headgate:self-test:2`],
    jitterSecondsMax,
  });
  const aside = { kind: "redis", keyPrefix, nodeOf: () => node, clock: complete.clock } as const;
  return new SharedStore(node, aside, redisProcessRegister(aside), complete.clock);
}
