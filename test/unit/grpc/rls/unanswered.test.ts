// What a call is told that the store gave no answer to: every policy, every kind of take, and whether the store may have counted it.

import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/errors.ts";
import { OnStoreFailure } from "../../../../src/engine/domain/limit.ts";
import { addMetadata } from "../../../../src/grpc/rls/metadata.ts";
import { failWithCallFailure } from "../../../../src/grpc/rls/service.ts";
import { GrpcStatus } from "../../../../src/grpc/unary.ts";
import { type AskedDescriptor, LimiterRig } from "../../../support/limiter-rig.ts";

const rulesWith = (policy: string) => `
domain: edge
descriptors:
  - { key: plain, on_store_failure: ${policy}, rate_limit: { requests_per_unit: 9, unit: hour } }
  - { key: report, post_paid: true, on_store_failure: ${policy}, rate_limit: { requests_per_unit: 9, unit: hour } }
  - key: held
    on_store_failure: ${policy}
    rate_limit: { algorithm: fixed_window, requests_per_unit: 9, unit: hour }
    hold: { id: id, ttl: 60s }
`;

const ASKED = {
  take: { entries: { plain: "a" } },
  peek: { entries: { plain: "a" }, hits: 0 },
  "post-paid report": { entries: { report: "a" }, hits: 3 },
  refund: { entries: { plain: "a" }, hits: 3, refund: true },
  settlement: { entries: { held: "a", id: "r1", settle: "" }, hits: 3 },
  "settlement without an id": { entries: { held: "a", settle: "" }, hits: 3 },
} satisfies Record<string, AskedDescriptor>;
type KindName = keyof typeof ASKED;

const KINDS = Object.keys(ASKED) as KindName[];
const ASKING_TO_PASS: readonly KindName[] = ["take", "peek"];
const COUNTED_AGAIN: readonly KindName[] = ["post-paid report", "refund", "settlement without an id"];
const OUTCOMES = ["surely not counted", "unknown"] as const;

/** The same for every call that was answered: the policy that its rule names. */
function expected(policy: string, kind: KindName, outcome: (typeof OUTCOMES)[number]) {
  if (policy === "error") {
    const mayRepeat = outcome === "surely not counted" || !COUNTED_AGAIN.includes(kind);
    return { status: mayRepeat ? GrpcStatus.unavailable : GrpcStatus.unknown };
  }
  const isDenied = policy === "deny" && ASKING_TO_PASS.includes(kind);
  return { code: isDenied ? "OVER_LIMIT" : "OK", degraded: { policy, failure: "STORE_TIMEOUT" } };
}

function ask(rig: LimiterRig, descriptors: readonly AskedDescriptor[]): object {
  const call = rig.begin(descriptors, 0, "edge");
  rig.limiter.decide(call, Number.POSITIVE_INFINITY);
  if (call.failure === undefined) {
    addMetadata(call, "notable");
    return { code: call.decision.metadata?.code, degraded: call.decision.metadata?.degraded };
  }
  let failedWith: GrpcStatus = GrpcStatus.ok;
  failWithCallFailure(
    {
      ok: () => expect.unreachable(),
      fail: (status) => {
        failedWith = status;
      },
    },
    call.failure,
  );
  return { status: failedWith };
}

function failed(outcome: (typeof OUTCOMES)[number]): StoreError {
  return new StoreError("STORE_TIMEOUT", "no reply", undefined, outcome === "unknown");
}

describe.each(Object.keys(OnStoreFailure) as (keyof typeof OnStoreFailure)[])("with on_store_failure: %s", (policy) => {
  // Promise(outages): Reports, refunds and settlements that the store did not answer get UNAVAILABLE only if resending is safe.
  test.each(KINDS.flatMap((kind) => OUTCOMES.map((outcome) => ({ kind, outcome }))))(
    "a $kind without an answer ($outcome) says so, and counts under that policy",
    ({ kind, outcome }) => {
      const rig = new LimiterRig(rulesWith(policy));
      rig.ask([{ entries: { held: "a", id: "r1" } }]);
      rig.observer.events.length = 0;
      rig.store.failure = failed(outcome);
      const told = expected(policy, kind, outcome);
      expect(ask(rig, [ASKED[kind]])).toEqual(told);
      const decided = "status" in told ? [] : [told.code === "OK" ? "allowed" : "refused"];
      expect(rig.observer.events).toEqual([`degraded ${OnStoreFailure[policy]} STORE_TIMEOUT`, ...decided]);
    },
  );
});
