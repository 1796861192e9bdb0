// Warms up before the process is ready, so that the first calls are as fast as later ones: runs calls until the engine
// has compiled their path, and has the store answer some takes. It leaves no trace in counters or in the store.

import type { Clock } from "../../base/clock.ts";
import { hashBucketKey } from "../../engine/domain/key-bytes.ts";
import { OnStoreFailure, OWN_LIMIT } from "../../engine/domain/limit.ts";
import type { Store } from "../../engine/domain/store.ts";
import { Mode, TakeGroup } from "../../engine/domain/take.ts";
import { LocalFallback } from "../../engine/limiter/failure-policy.ts";
import { Limiter } from "../../engine/limiter/limiter.ts";
import { compileRules } from "../../engine/rules/compile.ts";
import { RateLimitService } from "../../grpc/rls/service.ts";
import type { UnaryReply } from "../../grpc/unary.ts";
import { CallCounts } from "../../operate/telemetry/observers.ts";
import { RateLimitedLog } from "../../operate/telemetry/rate-limited-log.ts";
import { LimitStatsBook } from "../../operate/telemetry/stats-book.ts";
import { parseFile } from "../../rule-sources/files/parse-file.ts";
import { MemoryStore } from "../../stores/memory/memory-store.ts";

/** Set by tests: they start hundreds of services and need no fast first calls. */
const IS_SHORT = Boolean(process.env.SHORT_WARM_UP);
const CALLS = IS_SHORT ? 1 : 4_000;
/** Calls in one turn of the event loop; other work runs between turns. */
const CALLS_PER_TURN = 500;
const STORE_ROUNDS = IS_SHORT ? 1 : 50;
const TAKES_PER_ROUND = 16;

const RULES = `
domain: w
global_limit: { requests_per_unit: 4000000000, unit: second }
descriptors:
  - { key: a, rate_limit: { tokens_per_second: 1000, burst: 2000 } }
  - { key: b, rate_limit: { requests_per_unit: 2000, unit: minute } }
`;
/** `{domain: "w", descriptors: [{entries: [{key: "a", value: "?"}]}, {entries: [{key: "b", value: "?"}]}]}` */
const REQUEST = Buffer.from("0a017712080a060a016112013112080a060a0162120131", "hex");
const IGNORED: UnaryReply = { ok: () => undefined, fail: () => undefined };

/** Runs CALLS calls through decoding, matching, deciding and encoding, with rules and a store of their own. */
export async function warmUpCalls(clock: Clock): Promise<void> {
  const statsBook = new LimitStatsBook(0);
  const { ruleSet } = compileRules([parseFile({ name: "warm-up", bytes: Buffer.from(RULES) })], { statsBook });
  if (ruleSet === undefined) return;
  const store = new MemoryStore({ clock });
  const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const limiter = new Limiter({
    store,
    clock,
    observer: new CallCounts(new RateLimitedLog(silent, clock)),
    fallback: new LocalFallback(
      () => store,
      () => 1,
    ),
    nearLimitRatio: 0.8,
    shadowMode: false,
    quotaMode: false,
    onStoreFailure: OnStoreFailure.allow,
    retryAfterJitter: 0,
    statsBook,
  });
  limiter.useRules(ruleSet);
  const service = new RateLimitService({
    limiter,
    headers: { dialects: [], limitHeader: "", remainingHeader: "", resetHeader: "", explainsRefusals: true },
    metadata: "notable",
    onInternalError: () => undefined,
    onRequestError: () => undefined,
  });
  for (let i = 0; i < CALLS; i++) {
    REQUEST[REQUEST.length - 1] = 0x30 + (i % 10);
    service.handle(REQUEST, Number.POSITIVE_INFINITY, IGNORED);
    if (i % CALLS_PER_TURN === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await store.close();
}

/**
 * Has the store answer some peeks, which write nothing. Stops silently at the first failure: store-watch.ts reports it.
 */
export async function warmUpStore(store: Store): Promise<void> {
  for (let round = 0; round < STORE_ROUNDS; round++) {
    const answers = Array.from({ length: TAKES_PER_ROUND }, (_, i) => peek(store, `{headgate}|warm-up/${i}`));
    if (!(await Promise.all(answers)).every(Boolean)) return;
  }
}

function peek(store: Store, name: string): Promise<boolean> {
  const group = new TakeGroup();
  const take = group.add(OWN_LIMIT);
  take.bucketKey = name;
  take.keyHash = hashBucketKey(take.bucketKey);
  take.mode = Mode.peek;
  return new Promise((resolve) => {
    const answered = () => resolve(group.failure === undefined);
    if (store.take(group, { answered })) answered();
  });
}
