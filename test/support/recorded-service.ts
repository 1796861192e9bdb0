// The service as it serves calls, bytes in and bytes out, on a store and a clock of the test's, deciding a recording at the
// times of its calls. And the same of a simulation, to compare the two.

import { WireWriter } from "../../src/base/wire.ts";
import { Counters } from "../../src/engine/counters/counters.ts";
import { OnStoreFailure } from "../../src/engine/domain/limit.ts";
import type { Store } from "../../src/engine/domain/store.ts";
import { LocalFallback } from "../../src/engine/limiter/failure-policy.ts";
import { Limiter } from "../../src/engine/limiter/limiter.ts";
import type { RuntimeLimits } from "../../src/engine/limiter/runtime-limits.ts";
import type { RuleSet } from "../../src/engine/rules/rule-set.ts";
import type { AskedLimit } from "../../src/engine/runtime/runtime-limit.ts";
import { encodeDecision } from "../../src/grpc/rls/codec.ts";
import { RateLimitService } from "../../src/grpc/rls/service.ts";
import type { DecisionLog } from "../../src/operate/telemetry/decision-log.ts";
import { createLogger } from "../../src/operate/telemetry/logger.ts";
import { openRuntimeLimits } from "../../src/process/app/runtime-limits.ts";
import { readSettings } from "../../src/settings/settings.ts";
import { CountersFirst } from "../../src/stores/counters/counters-first.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import type { DecidingSettings } from "../../src/tools/simulate/simulated-service.ts";
import { Simulation } from "../../src/tools/simulate/simulation.ts";
import { CountingStatsBook, RecordingObserver } from "./limiter-rig.ts";
import { ManualClock } from "./manual-clock.ts";
import type { DrawnCall } from "./recorded-calls.ts";
import { rulesFromYaml } from "./rules.ts";

/** What the settings are unless somebody sets them. */
export const PLAIN_SETTINGS: DecidingSettings = {
  shadowMode: false,
  quotaMode: false,
  onStoreFailure: OnStoreFailure.allow,
  retryAfterJitter: 0,
  nearLimitRatio: 0.8,
  compatible: false,
  stopsAtOver: false,
  bucketsMax: 100_000,
  logBytesMax: 16_777_216,
};

/** The answer of a call in base64, or the message of the error in its place. */
export type AnswerBytes = string;

export interface ServedOptions {
  readonly rules: string;
  readonly cacheKeyPrefix?: string;
  readonly settings?: Partial<DecidingSettings>;
  /** Limits at run time, set as PUT /limits does before the first call. */
  readonly limits?: readonly AskedLimit[];
}

interface ServiceParts {
  readonly options: DecidingSettings;
  readonly store: Store;
  readonly clock: ManualClock;
  readonly decisions?: DecisionLog | undefined;
  readonly runtime?: RuntimeLimits | undefined;
}

/** The service without headers and metadata; what should not fail in it throws. */
export function plainService(
  rules: RuleSet,
  { options, store, clock, decisions, runtime }: ServiceParts,
): RateLimitService {
  const { compatible } = options;
  const limiter = new Limiter({
    ...options,
    store: compatible ? new CountersFirst(store, store, options) : store,
    counters: compatible ? new Counters({ ...options, windowClock: clock, localCache: undefined }) : undefined,
    clock,
    runtime,
    observer: new RecordingObserver(),
    statsBook: new CountingStatsBook(),
    fallback: new LocalFallback(
      () => new MemoryStore({ clock }),
      () => 1,
    ),
  });
  limiter.useRules(rules);
  return new RateLimitService({
    limiter,
    headers: { dialects: [], limitHeader: "", remainingHeader: "", resetHeader: "" },
    metadata: "off",
    onInternalError: (error) => {
      throw error;
    },
    onRequestError: () => undefined,
    decisions,
  });
}

/** Answers of a service, by default in memory, to calls one after another, the clock at the latest time that any of them has had. */
export async function servedAnswers(
  calls: readonly DrawnCall[],
  { rules, cacheKeyPrefix = "", settings = {}, limits = [] }: ServedOptions,
  on?: { readonly store: Store; readonly clock: ManualClock },
): Promise<readonly AnswerBytes[]> {
  const options = { ...PLAIN_SETTINGS, ...settings };
  const ruleSet = rulesFromYaml(rules, { cacheKeyPrefix, compatible: options.compatible });
  const clock = on?.clock ?? new ManualClock();
  clock.setUs(calls[0]?.atUs ?? 0);
  const store = on?.store ?? new MemoryStore({ clock });
  const runtime = await inForce(limits, ruleSet, clock);
  const service = plainService(ruleSet, { options, store, clock, runtime });
  const answers: AnswerBytes[] = [];
  for (const { atUs, message } of calls) {
    clock.setUs(Math.max(clock.nowUs(), atUs));
    answers.push(await answerTo(service, message));
  }
  return answers;
}

async function inForce(asked: readonly AskedLimit[], rules: RuleSet, clock: ManualClock): Promise<RuntimeLimits> {
  const logger = createLogger({ level: "silent", format: "json", clock, secrets: [] });
  const settings = readSettings({ RUNTIME_LIMITS_MAX: "100" });
  const { limits, source } = await openRuntimeLimits({
    settings,
    clock,
    logger,
    shared: undefined,
    rules: () => rules,
  });
  for (const each of asked) {
    const answer = await source.set([each], "test", { isDry: false, waits: false });
    for (const { outcome, says } of answer.limits) if (outcome !== "set") throw new Error(says);
  }
  return limits;
}

function answerTo(service: RateLimitService, message: Buffer): Promise<AnswerBytes> {
  return new Promise((resolve) => {
    service.handle(message, Number.POSITIVE_INFINITY, {
      ok: (bytes) => resolve(Buffer.from(bytes).toString("base64")),
      fail: (_status, text) => resolve(text),
    });
  });
}

/** What a simulation decides of the same calls. */
export function simulatedAnswers(
  calls: readonly DrawnCall[],
  { rules, settings = {}, limits = [] }: ServedOptions,
): { readonly answers: readonly AnswerBytes[]; readonly simulation: Simulation } {
  const answers: AnswerBytes[] = [];
  const writer = new WireWriter();
  const options = { ...PLAIN_SETTINGS, ...settings };
  const simulation = new Simulation({
    ruleSet: rulesFromYaml(rules, { compatible: options.compatible }),
    settings: options,
    limits: limits.map((asked, i) => ({ at: String(i), asked })),
    explainMax: 3,
    onDecided: ({ decision }) => answers.push(Buffer.from(encodeDecision(decision, writer)).toString("base64")),
  });
  for (const { atUs, message } of calls) simulation.feed({ atUs, message });
  return { answers, simulation };
}
