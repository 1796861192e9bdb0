// What calls under a limit with guarantees pay, count and show, apart from which way they pass (test/property/guarantees.test.ts).

import { describe, expect, test } from "vitest";
import { GLOBAL_DESCRIPTOR, Mode, type Take } from "../../../../src/engine/domain/take.ts";
import { entriesOfBucketKey } from "../../../../src/engine/rules/bucket-key.ts";
import { limitWords } from "../../../../src/engine/rules/limit-words.ts";
import { addMetadata } from "../../../../src/grpc/rls/metadata.ts";
import { TopKeys } from "../../../../src/operate/telemetry/top/top-keys.ts";
import { MemoryStore } from "../../../../src/stores/memory/memory-store.ts";
import { type AskedDescriptor, LimiterRig } from "../../../support/limiter-rig.ts";

const GUARANTEE = { entry: "tenant", tokens_per_second: 1, burst: 2, keep: "50%", callers: 2 };
const SHARED = { tokens_per_second: 2, burst: 10, guarantee: GUARANTEE };

function rigOf(rules: object): LimiterRig {
  return new LimiterRig(JSON.stringify({ domain: "edge", ...rules }), {
    openStore: (clock) => new MemoryStore({ clock, bucketsMax: 64 }),
  });
}

/** Decides a call; its takes and its metadata. */
function ask(rig: LimiterRig, descriptors: readonly AskedDescriptor[], hits = 0) {
  const call = rig.begin(descriptors, hits, "edge");
  rig.limiter.decide(call, Number.POSITIVE_INFINITY);
  addMetadata(call, "full");
  const { metadata } = call.decision;
  return { call, over: call.decision.overLimit, way: metadata?.way, status: call.decision.statuses[0] };
}

const from = (tenant: string, more: Partial<AskedDescriptor> = {}) => [{ entries: { tenant }, ...more }];

describe("a limit with guarantees", () => {
  test("says in metadata which way a call passed, shows the whole limit, and what may still pass either way", () => {
    const rig = rigOf({ global_limit: SHARED });
    const seen = Array.from({ length: 8 }, () => ask(rig, from("a")));
    expect(seen.map(({ way }) => way)).toEqual([
      ...["guaranteed", "guaranteed", "borrowed", "borrowed", "borrowed"],
      ...[undefined, undefined, undefined],
    ]);
    expect(seen.map(({ over }) => over)).toEqual([false, false, false, false, false, true, true, true]);
    expect(seen.map(({ status }) => status?.remaining)).toEqual([4, 3, 2, 1, 0, 0, 0, 0]);
    expect(seen.map(({ status }) => status?.limit?.burst)).toEqual(Array(8).fill(10));
    expect(ask(rig, from("b"))).toMatchObject({ way: "guaranteed", status: { remaining: 1 } });
    expect(ask(rig, [{ entries: { app: "x" } }])).toMatchObject({ over: true });
  });

  test("counts hits of both ways, and those that it should have covered", () => {
    const rig = rigOf({ global_limit: { ...SHARED, guarantee: { ...GUARANTEE, keep: "10%" } } });
    for (const tenant of ["a", "b"]) for (let i = 0; i < 6; i++) ask(rig, from(tenant));
    ask(rig, from("c"));
    ask(rig, from("d"));
    const limit = rig.limiter.rules?.domains.get("edge")?.globalLimit?.limit;
    const { guaranteed, borrowed, guaranteeBroken, totalHits, withinLimit, overLimit } = limit?.stats ?? {};
    expect({ guaranteed, borrowed, guaranteeBroken, totalHits, withinLimit, overLimit }).toEqual({
      ...{ guaranteed: 5, borrowed: 5, guaranteeBroken: 1 },
      ...{ totalHits: 14, withinLimit: 10, overLimit: 4 },
    });
  });

  test("pays neither bucket for a call that another limit refuses", () => {
    const rig = rigOf({
      global_limit: SHARED,
      descriptors: [{ key: "user", rate_limit: { requests_per_unit: 1, unit: "hour" } }],
    });
    const both = [{ entries: { tenant: "a" } }, { entries: { user: "u" } }];
    expect(ask(rig, both)).toMatchObject({ over: false });
    expect(ask(rig, both)).toMatchObject({ over: true });
    expect(ask(rig, from("a"))).toMatchObject({ way: "guaranteed" });
    expect(ask(rig, from("a"))).toMatchObject({ way: "borrowed" });
  });

  test("a peek pays nothing, and a refund goes back to both buckets", () => {
    const rig = rigOf({ descriptors: [{ key: "app", rate_limit: SHARED }] });
    const app = (more: Partial<AskedDescriptor> = {}) => [{ entries: { app: "x", tenant: "a" }, ...more }];
    expect(ask(rig, app({ hits: 0 }))).toMatchObject({ over: false, status: { remaining: 5 } });
    expect(ask(rig, app({ hits: 2 }))).toMatchObject({ way: "guaranteed", status: { remaining: 3 } });
    expect(ask(rig, app())).toMatchObject({ way: "borrowed" });
    // Nobody is shown the guarantee in place of its limit, nor a way that a refund did not take.
    expect(ask(rig, app({ hits: 2, refund: true }))).toMatchObject({
      way: undefined,
      status: { limit: { burst: 10 }, remaining: 4 },
    });
    expect(ask(rig, app({ hits: 2 }))).toMatchObject({ way: "guaranteed" });
  });

  test("gives both payments back when nobody hears the answer", () => {
    const rig = rigOf({ global_limit: SHARED });
    for (let i = 0; i < 2; i++) rig.limiter.giveBackUnheard(ask(rig, from("a")).call);
    expect(ask(rig, from("a"), 2)).toMatchObject({ way: "guaranteed", status: { remaining: 4 } });
  });

  test("names the guarantee's bucket by the shared limit's key and the caller, hidden where its values are", () => {
    const hidden = { key: "tenant", hash_values: true, rate_limit: { unlimited: true } };
    const keyOf = (rules: object) => {
      const { call } = ask(rigOf(rules), from("a|}b"));
      const take = call.group.takes.find(({ mode }) => mode === Mode.guarantee) as Take;
      expect(take.descriptor).toBe(GLOBAL_DESCRIPTOR);
      return take.bucketKey;
    };
    const key = keyOf({ global_limit: SHARED });
    expect(key).toBe("{edge}|global|tb/1|guarantee|tenant=a%7c%7db");
    expect(entriesOfBucketKey(key)).toEqual([{ key: "tenant", value: "a|}b" }]);
    expect(keyOf({ global_limit: SHARED, descriptors: [hidden] })).toMatch(
      /^\{edge\}\|global\|tb\/1\|guarantee\|tenant=%#[\w-]{43}$/,
    );
  });

  test("top keys name who borrows", () => {
    const rig = rigOf({ global_limit: SHARED });
    const top = new TopKeys({ keysMax: 8, nowUs: 0, labelsOf: () => undefined });
    for (let i = 0; i < 4; i++) top.decided(ask(rig, from("noisy")).call, 1);
    top.decided(ask(rig, from("quiet")).call, 1);
    const [part] = top.partsOf("minute", 1).parts.slice(-1);
    const keys = part?.passed.keys.map(({ text }) => text.key);
    expect(keys).toEqual(["{edge}|global|tb/1", "{edge}|global|tb/1|guarantee|tenant=noisy"]);
  });

  test("is said in words, with for how many callers it is kept", () => {
    const limit = rigOf({ global_limit: SHARED }).limiter.rules?.domains.get("edge")?.globalLimit?.limit;
    expect(limit === undefined ? "" : limitWords(limit)).toBe(
      "2 tokens per second, burst 10, token bucket; of these 5 only within a guarantee for each 'tenant': 1 token per second, burst 2, token bucket, kept for up to 2 callers",
    );
  });
});
