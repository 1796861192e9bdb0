// What a call gets when the store does not answer, by the rules involved.

import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/errors.ts";
import { OnStoreFailure } from "../../../../src/engine/domain/limit.ts";
import { LimiterRig } from "../../../support/limiter-rig.ts";

const RULES = `
domain: edge
descriptors:
  - { key: open, rate_limit: { requests_per_unit: 4, unit: hour } }
  - { key: deny, on_store_failure: deny, rate_limit: { requests_per_unit: 4, unit: hour } }
  - { key: local, on_store_failure: local, rate_limit: { requests_per_unit: 4, unit: hour } }
  - { key: error, on_store_failure: error, rate_limit: { requests_per_unit: 4, unit: hour } }
`;
const DOWN = new StoreError("STORE_TIMEOUT", "no reply");

function brokenRig(): LimiterRig {
  const rig = new LimiterRig(RULES);
  rig.store.failure = DOWN;
  return rig;
}

describe("when the store fails", () => {
  test.each([
    { keys: ["open", "local", "deny", "error"], policy: OnStoreFailure.deny, over: true, failure: undefined },
    { keys: ["open", "local", "error"], policy: OnStoreFailure.error, over: false, failure: "store" },
    { keys: ["open", "local"], policy: OnStoreFailure.local, over: false, failure: undefined },
  ])("of $keys reports the strictest that decides: a refusal holds, whatever the others say", ({ keys, ...told }) => {
    const rig = brokenRig();
    expect(rig.ask(keys.map((key) => ({ entries: { [key]: "x" } })))).toMatchObject(told);
  });

  test.each([{ compatible: false }, { compatible: true }])(
    "what deny refuses counts for its rule, with its cause (compatible: $compatible)",
    (options) => {
      const rig = new LimiterRig(RULES, options);
      rig.hit({ deny: "x" }, 5);
      rig.store.failure = DOWN;
      rig.hit({ deny: "x" }, 3);
      const stats = rig.statsBook.stats.get("edge|deny|");
      expect(stats).toMatchObject({ totalHits: 8, deniedUnanswered: 3 });
      expect(stats?.overLimit).toBe(options.compatible ? 4 : 8);
    },
  );

  test("a call that meets no limit is answered as usual", () => {
    const rig = brokenRig();
    expect(rig.hit({ none: "x" })).toMatchObject({ over: false, policy: undefined });
  });
});

describe("on_store_failure: local", () => {
  test("shows the limit as written, not the share", () => {
    const rig = brokenRig();
    rig.store.processes = 2;
    expect(rig.hit({ local: "x" }).statuses[0]).toMatchObject({ amount: 4, remaining: 1 });
  });

  test("keeps nothing once all that it counted is full", () => {
    const rig = brokenRig();
    rig.hit({ local: "x" });
    rig.store.failure = undefined;
    rig.clock.advanceSeconds(7_200);
    rig.hit({ open: "x" });
    rig.store.failure = DOWN;
    rig.hit({ local: "x" });
    expect(rig.local).toHaveLength(2);
  });
});

describe("on_store_failure: local, of holds", () => {
  const HOLDS = `
domain: edge
descriptors:
  - key: tenant
    on_store_failure: local
    rate_limit: { algorithm: fixed_window, requests_per_unit: 100, unit: hour }
    hold: { id: request_id, estimate: max_tokens, default: 20, ttl: 60s }
  - key: job
    on_store_failure: local
    hold: { id: request_id, ttl: 60s }
    concurrent: 2
`;
  const reserve = (rig: LimiterRig, id: string, tokens: number) =>
    rig.hit({ tenant: "a", request_id: id, max_tokens: String(tokens) });
  const fails = (rig: LimiterRig, failure: StoreError | undefined) => {
    rig.store.failure = failure;
  };

  // Promise(holds): Holds of one outage give nothing back in the next (`on_store_failure: local`).
  test("what one outage held is not given back in the next one, once the store has answered of it", () => {
    const rig = new LimiterRig(HOLDS);
    reserve(rig, "r0", 1);
    fails(rig, DOWN);
    expect(reserve(rig, "r1", 99).over).toBe(false);
    expect(reserve(rig, "r2", 1).over).toBe(true);
    fails(rig, undefined);
    expect(rig.hit({ tenant: "a", request_id: "r3", max_tokens: "99" }).over).toBe(false);
    fails(rig, DOWN);
    expect(reserve(rig, "r4", 1).over).toBe(true);
    // The hold of the first outage would have ended by now.
    rig.clock.advanceSeconds(61);
    expect([1, 2, 3].map((i) => reserve(rig, `late${i}`, 50).over)).toEqual([true, true, true]);
  });

  test("its memory goes once the last place is free, and not before", () => {
    const rig = new LimiterRig(HOLDS);
    const open = (key: string, id: string) => rig.hit({ job: key, request_id: id }).over;
    const storeAnswers = () => {
      fails(rig, undefined);
      open("other", "r9");
      fails(rig, DOWN);
    };
    fails(rig, DOWN);
    expect(["r1", "r2", "r3"].map((id) => open("a", id))).toEqual([false, false, true]);
    rig.clock.advanceSeconds(59);
    storeAnswers();
    expect(open("a", "r4")).toBe(true);
    expect(rig.local).toHaveLength(1);
    rig.clock.advanceSeconds(60);
    storeAnswers();
    expect(open("a", "r5")).toBe(false);
    expect(rig.local).toHaveLength(2);
  });
});

describe("an answer that comes later", () => {
  test("finishes its call once", () => {
    const rig = new LimiterRig(RULES);
    rig.store.holdsBack = true;
    rig.askLater([{ entries: { open: "x" } }]);
    expect(rig.late).toEqual([]);
    rig.store.release();
    expect(rig.late).toHaveLength(1);
    expect(rig.late[0]).toMatchObject({ over: false });
  });
});
