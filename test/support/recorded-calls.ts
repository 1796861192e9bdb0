// Generated rules of every algorithm and kind, and calls that meet them: odd numbers, bursts, silences, late ones, costs,
// peeks, reports after the fact, refunds, limits that callers bring along.

import fc from "fast-check";
import { ALGORITHM_NAMES, Unit, WRITTEN_ALGORITHMS } from "../../src/engine/domain/limit.ts";
import type { AskedLimit, RuntimeChange } from "../../src/engine/runtime/runtime-limit.ts";
import { RATE_LIMIT_SERVICE } from "../../src/grpc/transport/load-proto.ts";
import { loadProto } from "./load-proto.ts";

/** A call and when it was recorded. */
export interface DrawnCall {
  readonly atUs: number;
  readonly message: Buffer;
}

const START_US = Date.UTC(2026, 0, 1, 11, 59, 57) * 1_000;

const windows = fc.oneof(
  fc.constantFrom("1s", "3s", "1m", "7m", "1h"),
  fc.integer({ min: 1, max: 100 }).map((seconds) => `${seconds}s`),
);

const bucket = fc
  .record({
    tokens_per_second: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(0.5, 0.1, 2.7, 13.37)),
    more: fc.integer({ min: 0, max: 30 }),
  })
  .map(({ tokens_per_second, more }) => ({ tokens_per_second, burst: Math.ceil(tokens_per_second) + more }));
const window = fc.record({
  requests_per_unit: fc.integer({ min: 0, max: 30 }),
  window: windows,
  algorithm: fc.constantFrom(...WRITTEN_ALGORITHMS.map((algorithm) => ALGORITHM_NAMES[algorithm])),
});
/** Days that begin three seconds after the start. */
const calendarWindow = fc.record({
  requests_per_unit: fc.integer({ min: 0, max: 30 }),
  window: fc.constant({ calendar: "day", time_zone: "Pacific/Fiji" }),
});
const limit = fc.oneof(bucket, window, calendarWindow);

const ruleFields = fc.record(
  {
    shadow_mode: fc.boolean(),
    quota_mode: fc.boolean(),
    cost: fc.constantFrom({ entry: "weight", default: 1, max: 9 }, { entry: "weight", max: 9, per: 2 }),
    hash_values: fc.boolean(),
  },
  { requiredKeys: [] },
);

/** A rule file as an object; JSON is YAML. */
export const drawnRules: fc.Arbitrary<string> = fc
  .record({
    user: limit,
    userRule: ruleFields,
    both: fc.tuple(limit, limit),
    gold: limit,
    reported: bucket,
    shared: limit,
    globalLimit: fc.option(limit, { nil: undefined }),
  })
  .map(({ user, userRule, both, gold, reported, shared, globalLimit }) =>
    JSON.stringify({
      domain: "edge",
      ...(globalLimit === undefined ? {} : { global_limit: globalLimit }),
      descriptors: [
        { key: "user", ...userRule, rate_limit: user },
        { key: "both", rate_limits: both.map((one, i) => ({ ...one, name: `limit${i}` })) },
        { key: "plan", value: "gold", descriptors: [{ key: "user", rate_limit: gold }] },
        { key: "plan", descriptors: [{ key: "user", rate_limit: { unlimited: true } }] },
        { key: "tokens", post_paid: true, rate_limit: reported },
        { key: "path", match: { prefix: "/a" }, share_threshold: true, rate_limit: shared },
      ],
    }),
  );

const names = fc.constantFrom("ann", "bob", "cy", "鍵");
const entry = (key: string, value: fc.Arbitrary<string>) => value.map((text) => ({ key, value: text }));
const entries = fc.oneof(
  entry("user", names).map((one) => [one]),
  fc.tuple(entry("user", names), entry("weight", fc.constantFrom("1", "2", "8", "x"))),
  entry("both", names).map((one) => [one]),
  fc.tuple(entry("plan", fc.constantFrom("gold", "iron")), entry("user", names)),
  entry("tokens", names).map((one) => [one]),
  entry("path", fc.constantFrom("/a", "/ab", "/b")).map((one) => [one]),
  entry("nothing", names).map((one) => [one]),
  fc.constant([]),
);

const descriptor = fc.record({
  entries,
  hits_addend: fc.option(
    fc.constantFrom(0, 0, 1, 2, 5).map((value) => ({ value })),
    { nil: null, freq: 4 },
  ),
  is_negative_hits: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  limit: fc.option(
    fc.record({ requests_per_unit: fc.integer({ min: 0, max: 5 }), unit: fc.integer({ min: 1, max: 7 }) }),
    {
      nil: null,
      freq: 9,
    },
  ),
});

const step = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: 0, max: 300_000 }) },
  { weight: 2, arbitrary: fc.constant(0) },
  { weight: 2, arbitrary: fc.integer({ min: 300_000, max: 20_000_000 }) },
  { weight: 1, arbitrary: fc.integer({ min: 60_000_000, max: 4_000_000_000 }) },
  { weight: 1, arbitrary: fc.integer({ min: -5_000_000, max: -1 }) },
);

const call = fc.record({
  afterUs: step,
  domain: fc.oneof({ weight: 30, arbitrary: fc.constant("edge") }, { weight: 1, arbitrary: fc.constant("elsewhere") }),
  descriptors: fc.array(descriptor, { minLength: 1, maxLength: 3 }),
  hits_addend: fc.constantFrom(0, 1, 1, 3),
});

const callers = fc.oneof(
  ...["user", "both", "tokens"].map((key) => entry(key, names).map((one) => [one])),
  entry("user", names).map((one) => [{ key: "plan", value: "gold" }, one]),
);
const changes: fc.Arbitrary<(of: string) => RuntimeChange> = fc.oneof(
  fc
    .record({ limit: fc.constantFrom("limit0", "limit1"), requests: fc.integer({ min: 0, max: 12 }) })
    .map(({ limit, requests }) => (key: string) => ({
      kind: "amounts" as const,
      amounts: [{ limit: key === "both" ? limit : "", requests, unit: Unit.unknown, burst: undefined }],
    })),
  fc.boolean().map((shadow) => () => ({ kind: "block" as const, shadow })),
  fc.boolean().map((global) => () => ({ kind: "exempt" as const, global })),
);

/** Limits at run time that the drawn rules allow, some of which end during the calls. */
export const drawnLimits: fc.Arbitrary<readonly AskedLimit[]> = fc.array(
  fc
    .record({ entries: callers, change: changes, seconds: fc.option(fc.integer({ min: 1, max: 4_000 })) })
    .map(({ entries, change, seconds }) => ({
      caller: { domain: "edge", entries },
      change: change(entries[0]?.key ?? ""),
      until: seconds === null ? undefined : { seconds },
      note: "",
      seenUs: undefined,
    })),
  { maxLength: 12 },
);

/** Calls of some minutes to a day; no limits of their own if `hasOverrides` is false. */
export function drawnCalls(callsMax: number, hasOverrides = true): fc.Arbitrary<readonly DrawnCall[]> {
  return fc.array(call, { minLength: 1, maxLength: callsMax, size: "max" }).map((calls) => {
    let atUs = START_US;
    return calls.map(({ afterUs, descriptors, ...request }) => {
      atUs += afterUs;
      const asked = hasOverrides ? descriptors : descriptors.map((descriptor) => ({ ...descriptor, limit: null }));
      return { atUs, message: messageOf({ ...request, descriptors: asked }) };
    });
  });
}

function messageOf(request: object): Buffer {
  const service = loadProto()[RATE_LIMIT_SERVICE] as unknown as {
    readonly ShouldRateLimit: { requestSerialize(request: object): Buffer };
  };
  return service.ShouldRateLimit.requestSerialize(request);
}
