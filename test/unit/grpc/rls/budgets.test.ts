// Reserve and Settle beyond what entries can say: what is refused as a mistake, what is told, and what a store that does not
// answer means.

import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/errors.ts";
import { SECOND_US } from "../../../contract/store-harness.ts";
import { BudgetsRig, settleBytes } from "../../../support/budgets.ts";
import { LimiterRig } from "../../../support/limiter-rig.ts";
import { bytesField } from "../../../support/wire.ts";

const RULES = `
domain: edge
descriptors:
  - key: tenant
    rate_limit: { name: tokens, algorithm: token_bucket, requests_per_unit: 100, unit: minute }
    hold: { id: request_id, estimate: max_tokens, default: 20, max: 60, ttl: 120s }
    concurrent: 2
    descriptors:
      - { key: plan, value: free, rate_limit: { requests_per_unit: 1, unit: hour } }
      - { key: plan, value: own, rate_limit: { unlimited: true } }
      - { key: deeper }
`;
const tenant = { tenant: "a" };

function open(onStoreFailure = "allow", rules = RULES) {
  const rig = new LimiterRig(rules.replace("hold:", `on_store_failure: ${onStoreFailure}\n    hold:`));
  return { rig, budgets: new BudgetsRig(rig) };
}

test("a reservation tells what it has paid and what is left of the nearest limit", () => {
  const { budgets } = open();
  const reserved = { code: "OK", reason: "", retryAfter: undefined, degraded: null, rule: "edge/tenant#tokens" };
  expect(budgets.reserve({ entries: tenant, id: "r1" })).toEqual({ ...reserved, remaining: 80, reserved: 20 });
  expect(budgets.reserve({ entries: tenant, id: "r2", number: 70 })).toEqual({
    ...reserved,
    remaining: 20,
    reserved: 60,
  });
});

test("callers that count in parts of a unit reserve, are told and settle in parts", () => {
  const { rig, budgets } = open("allow", RULES.replace("default: 20, max: 60", "default: 1500, max: 9000, per: 1000"));
  const left = () => rig.hit(tenant, 0).statuses[0]?.remaining;
  expect(budgets.reserve({ entries: tenant, id: "r1" })).toMatchObject({ reserved: 2_000, remaining: 98 });
  expect(budgets.reserve({ entries: tenant, id: "r2", number: 50_000 })).toMatchObject({ reserved: 9_000 });
  expect(budgets.settle({ entries: tenant, id: "r1", number: 1 })).toMatchObject({ found: "SETTLED" });
  expect(left()).toBe(90);
  budgets.settle({ entries: tenant, id: "r2", number: 9_001 });
  expect(left()).toBe(89);
});

test("a refusal says which limit, why, and when the same amount may pass", () => {
  const { rig, budgets } = open();
  budgets.reserve({ entries: tenant, id: "r1", number: 60 });
  const refused = { code: "OVER_LIMIT", reserved: 0, degraded: null };
  expect(budgets.reserve({ entries: tenant, id: "r2", number: 55 })).toEqual({
    ...refused,
    remaining: 40,
    retryAfter: 9,
    rule: "edge/tenant#tokens",
    reason: "token_bucket_exceeded",
  });
  budgets.reserve({ entries: tenant, id: "r2", number: 1 });
  rig.clock.advanceUs(30 * SECOND_US);
  expect(budgets.reserve({ entries: tenant, id: "r3", number: 1 })).toEqual({
    ...refused,
    remaining: 0,
    retryAfter: 15,
    rule: "edge/tenant#concurrent",
    reason: "concurrent_exceeded",
  });
});

test("an amount that can never pass tells no time to come back", () => {
  const { budgets } = open("allow", RULES.replace(", max: 60", ""));
  const reply = budgets.reserve({ entries: tenant, id: "r1", number: 101 });
  expect([reply.code, reply.retryAfter]).toEqual(["OVER_LIMIT", undefined]);
});

describe("a call that names no hold fails before it pays anything:", () => {
  test.each([
    { name: "no rule", entries: { other: "a" }, says: "no rule limits them" },
    { name: "a rule without hold", entries: { ...tenant, plan: "free" }, says: "tenant/plan=free has none" },
    { name: "a rule without limits", entries: { ...tenant, deeper: "x" }, says: "no rule limits them" },
    { name: "another domain", domain: "none", entries: tenant, says: "no rule limits them" },
  ])("$name is FAILED_PRECONDITION", ({ says, ...asked }) => {
    const { rig, budgets } = open();
    const failed = new RegExp(`^9 REQUEST_NOT_HELD: expected entries of a rule with 'hold', but .*${says}$`);
    expect(() => budgets.reserve({ ...asked, id: "r1" })).toThrow(
      expect.objectContaining({ message: expect.stringMatching(failed) }),
    );
    expect(() => budgets.settle({ ...asked, id: "r1" })).toThrow(
      expect.objectContaining({ message: expect.stringMatching(failed) }),
    );
    expect(budgets.requestErrors).toEqual(["REQUEST_NOT_HELD", "REQUEST_NOT_HELD"]);
    expect(rig.store.seen).toEqual([]);
  });

  test.each([
    { name: "no domain", domain: "", entries: tenant, id: "r1", code: "REQUEST_DOMAIN_EMPTY" },
    { name: "no entries", entries: {}, id: "r1", code: "REQUEST_DESCRIPTORS_EMPTY" },
    { name: "no id", entries: tenant, id: "", code: "REQUEST_HOLD_ID" },
    { name: "a long id", entries: tenant, id: "x".repeat(65_537), code: "REQUEST_ENTRY_TOO_LONG" },
  ])("$name is INVALID_ARGUMENT", ({ code, ...asked }) => {
    const { budgets } = open();
    expect(() => budgets.reserve(asked)).toThrow(`3 ${code}: `);
    expect(() => budgets.settle(asked)).toThrow(`3 ${code}: `);
  });
});

test("what no rule holds shows among what met no rule", () => {
  const { rig, budgets } = open();
  expect(() => budgets.reserve({ entries: { other: "a" }, id: "r1" })).toThrow();
  expect([...rig.observer.unmatched.entries()]).toMatchObject([{ domain: "edge", descriptors: 1 }]);
});

test("a reservation without an entry that the domain requires is refused, whether or not its rule has holds", () => {
  const { rig, budgets } = open("allow", `${RULES}require: [user]\non_missing: refuse\n`);
  for (const entries of [tenant, { other: "a" }]) {
    const reply = budgets.reserve({ entries, id: "r1", number: 1 });
    expect(reply).toMatchObject({ code: "OVER_LIMIT", reason: "required_entry_missing", rule: "", reserved: 0 });
    expect(reply.retryAfter).toBeUndefined();
  }
  expect(rig.store.seen).toEqual([]);
  expect(budgets.settle({ entries: tenant, id: "r1" }).found).toBe("UNKNOWN");
});

test("an unlimited rule passes all and holds nothing", () => {
  const { budgets } = open();
  const asked = { entries: { ...tenant, plan: "own" }, id: "r1", number: 500 };
  expect(budgets.reserve(asked)).toMatchObject({ code: "OK", reserved: 0, remaining: 2 ** 32 - 1 });
  expect(budgets.settle(asked)).toMatchObject({ found: "UNKNOWN" });
});

test("a call says nothing of holds by its entries", () => {
  const { budgets } = open();
  const entries = { ...tenant, request_id: "other", max_tokens: "1", settle: "" };
  expect(budgets.reserve({ entries, id: "r1", number: 30 })).toMatchObject({ code: "OK", reserved: 30 });
  expect(budgets.settle({ entries, id: "other" }).found).toBe("UNKNOWN");
  expect(budgets.settle({ entries, id: "r1", number: 3 }).found).toBe("SETTLED");
});

test("a mistake leaves nothing behind for the calls after it", () => {
  const rules = `
domain: edge
descriptors:
  - { key: swap, rate_limit: { name: mine, requests_per_unit: 5, unit: hour, replaces: [{ name: theirs }] } }
`;
  const { rig, budgets } = open();
  const others = `domain: other\ndescriptors: [{ key: x, rate_limit: { name: theirs, requests_per_unit: 3, unit: hour } }]\n`;
  rig.useRules([rules, others]);
  expect(() => budgets.reserve({ entries: { swap: "a" }, id: "r1" })).toThrow("REQUEST_NOT_HELD");
  expect(rig.ask([{ entries: { x: "a" } }], 0, "other").statuses[0]?.remaining).toBe(2);
});

describe("a store that does not answer", () => {
  const failure = new StoreError("STORE_TIMEOUT", "late");

  test.each([
    { policy: "allow", code: "OK", retryAfter: undefined, reserved: 0 },
    { policy: "deny", code: "OVER_LIMIT", retryAfter: 1, reserved: 0 },
    { policy: "local", code: "OK", retryAfter: undefined, reserved: 30 },
  ])("has a reservation answered by the rule's policy: $policy", ({ policy, ...expected }) => {
    const { rig, budgets } = open(policy);
    rig.store.failure = failure;
    const degraded = { policy, failure: "STORE_TIMEOUT" };
    expect(budgets.reserve({ entries: tenant, id: "r1", number: 30 })).toMatchObject({ ...expected, degraded });
  });

  test("fails a reservation whose rule says error", () => {
    const { rig, budgets } = open("error");
    rig.store.failure = failure;
    expect(() => budgets.reserve({ entries: tenant, id: "r1" })).toThrow("14 SERVICE_STORE_FAILED: ");
  });

  // Promise(holds): A settlement that the store did not take fails, and counts once when it is sent again.
  test.each(["allow", "deny", "error", "local"])(
    "fails a settlement, which counts once when it is sent again: policy %s",
    (policy) => {
      const { rig, budgets } = open(policy);
      budgets.reserve({ entries: tenant, id: "r1", number: 30 });
      rig.store.failure = failure;
      expect(() => budgets.settle({ entries: tenant, id: "r1", number: 9 })).toThrow(
        "14 SERVICE_STORE_FAILED: the store did not answer (STORE_TIMEOUT)",
      );
      rig.store.failure = undefined;
      expect(budgets.settle({ entries: tenant, id: "r1", number: 9 }).found).toBe("SETTLED");
      expect(budgets.settle({ entries: tenant, id: "r1", number: 9 }).found).toBe("ALREADY_SETTLED");
      expect(rig.hit({ ...tenant }, 0).statuses[0]?.remaining).toBe(91);
    },
  );

  test("leaves a settlement to the process's own count where the rule says local", () => {
    const { rig, budgets } = open("local");
    rig.store.failure = failure;
    budgets.reserve({ entries: tenant, id: "r1", number: 30 });
    const reply = budgets.settle({ entries: tenant, id: "r1", number: 9 });
    expect(reply).toMatchObject({ found: "SETTLED", degraded: { policy: "local", failure: "STORE_TIMEOUT" } });
  });
});

test("a message with a field twice is read as its last", () => {
  const { rig, budgets } = open();
  budgets.reserve({ entries: tenant, id: "r2", number: 30 });
  const message = Buffer.concat([settleBytes({ entries: tenant, id: "r1" }), bytesField(3, "r2")]);
  let answer: Buffer | undefined;
  budgets.settleHandler.handle(message, Number.POSITIVE_INFINITY, {
    ok: (bytes) => {
      answer = Buffer.from(bytes);
    },
    fail: (_status, text) => expect.unreachable(text),
  });
  expect([answer?.[1], rig.store.seen.length]).toEqual([1, 2]);
});
