// Headers and metadata of decided calls, by dialect.

import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/errors.ts";
import type { LimitCall } from "../../../../src/engine/limiter/call.ts";
import { addHeaders } from "../../../../src/grpc/rls/headers.ts";
import { addMetadata, type MetadataMode } from "../../../../src/grpc/rls/metadata.ts";
import type { HeaderDialect } from "../../../../src/settings/header-dialects.ts";
import { SeveralStores } from "../../../../src/stores/sharded/sharded-calls.ts";
import { type AskedDescriptor, LimiterRig } from "../../../support/limiter-rig.ts";
import type { ManualClock } from "../../../support/manual-clock.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";

const RULES = `
domain: edge
global_limit: { requests_per_unit: 100, unit: hour }
descriptors:
  - { key: bucket, rate_limit: { name: "per key", tokens_per_second: 2, burst: 10 } }
  - { key: window, rate_limit: { requests_per_unit: 1, unit: minute } }
  - { key: fixed, rate_limit: { requests_per_unit: 1, unit: minute, algorithm: fixed_window } }
  - { key: log, rate_limit: { requests_per_unit: 1, unit: minute, algorithm: sliding_log } }
  - { key: jittered, rate_limit: { requests_per_unit: 1, unit: hour, algorithm: fixed_window, retry_after_jitter: 0.5 } }
  - { key: tagged, metadata: { team: red, nested: { a: 1 } }, rate_limit: { requests_per_unit: 9, unit: hour } }
  - { key: tagged2, metadata: { team: blue, nested: { a: 2, b: 3 } }, rate_limit: { requests_per_unit: 9, unit: hour } }
  - { key: shadow, shadow_mode: true, rate_limit: { requests_per_unit: 0, unit: hour } }
  - { key: deny, on_store_failure: deny, rate_limit: { requests_per_unit: 9, unit: hour } }
`;
const NAMES = {
  limitHeader: "RateLimit-Limit",
  remainingHeader: "RateLimit-Remaining",
  resetHeader: "RateLimit-Reset",
};

function decide(rig: LimiterRig, descriptors: readonly AskedDescriptor[], hitsAddend = 0): LimitCall {
  const call = rig.begin(descriptors, hitsAddend, "edge");
  rig.limiter.decide(call, Number.POSITIVE_INFINITY);
  return call;
}

function headersOf(call: LimitCall, ...dialects: HeaderDialect[]): Record<string, string> {
  addHeaders(call, { dialects, ...NAMES });
  return Object.fromEntries(
    call.decision.headers.slice(0, call.decision.headerCount).map(({ key, value }) => [key, value]),
  );
}

function metadataOf(call: LimitCall, mode: MetadataMode): Record<string, unknown> | undefined {
  addMetadata(call, mode);
  return call.decision.metadata;
}

describe("headers", () => {
  // Promise(answers): RESPONSE_HEADERS chooses RateLimit-Limit, -Remaining and -Reset, RateLimit with RateLimit-Policy, or X-RateLimit-\*.
  test.each([
    {
      dialect: "ratelimit" as const,
      expected: { "RateLimit-Limit": "10", "RateLimit-Remaining": "9", "RateLimit-Reset": "1" },
    },
    {
      dialect: "x-ratelimit" as const,
      expected: { "X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "9", "X-RateLimit-Reset": "1" },
    },
    {
      dialect: "structured" as const,
      expected: { "RateLimit-Policy": '"per%20key";q=10;w=5', RateLimit: '"per%20key";r=9;t=1' },
    },
  ])("in dialect $dialect show the limit that governs", ({ dialect, expected }) => {
    expect(headersOf(decide(new LimiterRig(RULES), [{ entries: { bucket: "a" } }]), dialect)).toEqual(expected);
  });

  test("tell the real end and length of a calendar's window", () => {
    const month = "window: { calendar: month, time_zone: Europe/Berlin }";
    const rules = `domain: edge\ndescriptors:\n  - { key: bucket, rate_limit: { requests_per_unit: 5, ${month} } }\n`;
    const rig = new LimiterRig(rules);
    // March of Berlin loses an hour.
    rig.clock.setUs(Date.parse("2026-03-31T21:59:50Z") * 1_000);
    expect(headersOf(decide(rig, [{ entries: { bucket: "a" } }]), "structured")).toEqual({
      "RateLimit-Policy": `"bucket";q=5;w=${31 * 86_400 - 3_600}`,
      RateLimit: '"bucket";r=4;t=10',
    });
    rig.clock.setUs(Date.parse("2026-03-31T22:00:00Z") * 1_000);
    expect(headersOf(decide(rig, [{ entries: { bucket: "a" } }]), "structured")).toEqual({
      "RateLimit-Policy": `"bucket";q=5;w=${30 * 86_400}`,
      RateLimit: `"bucket";r=4;t=${30 * 86_400}`,
    });
  });

  // Promise(answers): A refusal says Retry-After and why, in one word per algorithm, and whether the global limit refused.
  test.each([
    { key: "bucket", hits: 10, reason: "token_bucket_exceeded", retryAfter: "1" },
    { key: "window", hits: 1, reason: "sliding_window_exceeded", retryAfter: "120" },
    { key: "fixed", hits: 1, reason: "fixed_window_exceeded", retryAfter: "60" },
    { key: "log", hits: 1, reason: "sliding_log_exceeded", retryAfter: "60" },
  ])("of a refusal carry Retry-After and the reason $reason", ({ key, hits, reason, retryAfter }) => {
    const rig = new LimiterRig(RULES);
    decide(rig, [{ entries: { [key]: "a" }, hits }]);
    const headers = headersOf(decide(rig, [{ entries: { [key]: "a" } }]), "x-ratelimit");
    expect(headers).toMatchObject({ "Retry-After": retryAfter, "X-RateLimit-Reason": reason });
  });

  // Promise(answers): A refusal says Retry-After and why, in one word per algorithm, and whether the global limit refused.
  test("name the global limit when it refuses", () => {
    const rig = new LimiterRig(RULES);
    for (let i = 0; i < 100; i++) decide(rig, [{ entries: { none: "a" } }]);
    const headers = headersOf(decide(rig, [{ entries: { bucket: "a" } }]), "structured");
    expect(headers["X-RateLimit-Reason"]).toBe("global_limit_exceeded");
    expect(headers.RateLimit).toMatch(/^"global";r=0;t=\d+$/);
  });

  // Promise(answers): Retry-After is spread by up to 50 % over callers and constant for each caller.
  test("jitter Retry-After by up to half, always the same for one identity, spread over many", () => {
    const rig = new LimiterRig(RULES);
    const waits = Array.from({ length: 200 }, (_, i) => {
      const descriptors = [{ entries: { jittered: `c${i}` } }];
      rig.useRules(RULES);
      decide(rig, descriptors);
      const [first, second] = [1, 2].map(() => Number(headersOf(decide(rig, descriptors), "ratelimit")["Retry-After"]));
      expect(second).toBe(first);
      return first ?? 0;
    }).filter((wait) => wait >= 3600);
    expect(Math.max(...waits)).toBeLessThanOrEqual(5400);
    expect(Math.max(...waits)).toBeGreaterThan(5000);
    expect(Math.min(...waits)).toBeLessThan(4000);
    expect(new Set(waits).size).toBeGreaterThan(80);
  });

  test("hold nothing that could end a header line or a quoted string", () => {
    const rules =
      'domain: edge\ndescriptors:\n  - { key: k, rate_limit: { name: "a\\r\\nSet-Cookie: x=\\"1\\"", requests_per_unit: 1, unit: hour } }\n';
    const headers = headersOf(
      decide(new LimiterRig(rules), [{ entries: { k: "a" } }]),
      "structured",
      "ratelimit",
      "x-ratelimit",
    );
    for (const [name, value] of Object.entries(headers)) {
      expect(`${name}: ${value}`).toMatch(/^[A-Za-z-]+: [\x20-\x7e]+$/);
      expect(value.split('"').length - 1).toBeLessThanOrEqual(2);
    }
  });
});

describe("metadata", () => {
  test("of a refusal names rule, path, reason, remaining, reset and source", () => {
    const rig = new LimiterRig(RULES);
    decide(rig, [{ entries: { window: "a" } }]);
    expect(metadataOf(decide(rig, [{ entries: { window: "a" } }]), "notable")).toEqual({
      code: "OVER_LIMIT",
      rule: "edge/window",
      path: "window",
      algorithm: "sliding_window",
      remaining: 0,
      reset_seconds: 120,
      reason: "sliding_window_exceeded",
      source: "store",
    });
  });

  test("says what a shadow rule would have done", () => {
    const metadata = metadataOf(decide(new LimiterRig(RULES), [{ entries: { shadow: "a" } }]), "notable");
    expect(metadata).toMatchObject({ code: "OK", shadowed: true, rule: "edge/shadow" });
  });

  test("names the shadow rule that would have refused, not a quota that is used up", () => {
    const rig = new LimiterRig(
      "domain: edge\ndescriptors:\n  - { key: quota, quota_mode: true, rate_limit: { requests_per_unit: 0, unit: hour } }\n" +
        "  - { key: free, quota_mode: true, rate_limit: { requests_per_unit: 9, unit: hour } }\n" +
        "  - { key: ghost, shadow_mode: true, rate_limit: { requests_per_unit: 0, unit: hour } }\n",
    );
    const asked = ["quota", "free", "ghost"].map((key) => ({ entries: { [key]: "a" } }));
    expect(metadataOf(decide(rig, asked), "notable")).toMatchObject({ shadowed: true, rule: "edge/ghost" });
  });

  test("says that and why an answer was given without the store", () => {
    const rig = new LimiterRig(RULES);
    rig.store.failure = new StoreError("STORE_TIMEOUT", "no reply");
    expect(metadataOf(decide(rig, [{ entries: { window: "a" } }]), "notable")).toMatchObject({
      code: "OK",
      source: "policy",
      degraded: { policy: "allow", failure: "STORE_TIMEOUT" },
    });
    expect(metadataOf(decide(rig, [{ entries: { deny: "a" } }]), "notable")).toMatchObject({
      code: "OVER_LIMIT",
      rule: "edge/deny",
      degraded: { policy: "deny", failure: "STORE_TIMEOUT" },
    });
  });

  test("names the answered limit next to an unanswered one, and whose answer it shows", () => {
    const stores: ScriptedStore[] = [];
    const openStore = (clock: ManualClock) => {
      const pair: [ScriptedStore, ScriptedStore] = [new ScriptedStore(clock), new ScriptedStore(clock)];
      stores.push(...pair);
      return new SeveralStores(pair, ({ limit }) => (limit.names.path === "bucket" ? 0 : 1));
    };
    const rig = new LimiterRig(RULES, { openStore });
    for (const store of stores.slice(1)) store.failure = new StoreError("STORE_TIMEOUT", "no reply");
    const passed = decide(rig, [{ entries: { bucket: "a" } }]);
    expect(metadataOf(passed, "notable")).toMatchObject({
      rule: "edge/bucket#per%20key",
      source: "store",
      remaining: 9,
    });
    expect(metadataOf(passed, "notable")).toMatchObject({ degraded: { policy: "allow", failure: "STORE_TIMEOUT" } });
    const denied = decide(rig, [{ entries: { bucket: "a" } }, { entries: { deny: "a" } }]);
    expect(metadataOf(denied, "notable")).toMatchObject({ rule: "edge/deny", source: "policy", remaining: 0 });
    // What the refused call had paid is back before its answer is written.
    expect(denied.decision.statuses.map(({ overLimit, remaining }) => [overLimit, remaining])).toEqual([
      [false, 9],
      [true, 0],
    ]);
  });

  test("in full carries the reference's fields; of rules' metadata the first wins and maps merge", () => {
    const rig = new LimiterRig(RULES);
    const call = decide(rig, [{ entries: { tagged: "a" } }, { entries: { tagged2: "b" }, hits: 2 }], 3);
    const expected = {
      domain: "edge",
      descriptors: [{ entries: ["tagged=a"] }, { entries: ["tagged2=b"], hitsAddend: 2 }],
      hitsAddend: 3,
      metadata: { team: "red", nested: { a: 1, b: 3 } },
    };
    expect(metadataOf(call, "full")).toMatchObject(expected);
    const again = decide(rig, [{ entries: { tagged2: "b" } }]);
    expect(metadataOf(again, "full")).toMatchObject({ metadata: { team: "blue", nested: { a: 2, b: 3 } } });
  });
});
