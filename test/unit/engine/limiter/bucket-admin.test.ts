// Looking at buckets and making them as empty, for every algorithm and through everything that stands around a store.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/errors.ts";
import { OnStoreFailure } from "../../../../src/engine/domain/limit.ts";
import type { BucketMemory, Store } from "../../../../src/engine/domain/store.ts";
import { type AskedBuckets, BucketAdmin } from "../../../../src/engine/limiter/bucket-admin.ts";
import type { openStore } from "../../../../src/process/app/open-store.ts";
import { DenialMemory } from "../../../../src/stores/denials/denial-memory.ts";
import { MemoryStore } from "../../../../src/stores/memory/memory-store.ts";
import { Leases } from "../../../../src/stores/sync/lease.ts";
import { SyncStore } from "../../../../src/stores/sync/sync-store.ts";
import { LimiterRig, type RigOptions } from "../../../support/limiter-rig.ts";
import type { ManualClock } from "../../../support/manual-clock.ts";
import { runs } from "../../../support/runs.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";

type OpenedStore = Awaited<ReturnType<typeof openStore>>;

interface AdminOptions extends RigOptions {
  /** Puts around the memory what stands around a shared store. */
  readonly wrapped?: boolean;
}

/** A limiter and a bucket admin over one store, under one clock. */
function openRig(rules: string, { wrapped = false, ...options }: AdminOptions = {}) {
  let memories: readonly BucketMemory[] = [];
  let memory: MemoryStore | undefined;
  const openStore = (clock: ManualClock) => {
    memory = new MemoryStore({ clock });
    const around = wrapped ? wrap(memory, clock) : { store: memory, memories };
    memories = around.memories;
    return around.store;
  };
  const rig = new LimiterRig(rules, { openStore, ...options });
  const { clock, limiter, counters, opened: store, statsBook } = rig;
  const admin = new BucketAdmin({
    store,
    memories,
    clock,
    shadowMode: false,
    quotaMode: false,
    onStoreFailure: OnStoreFailure.allow,
    retryAfterJitter: 0,
    statsBook,
    counters,
    rules: () => limiter.rules,
  });
  /** One call; true if it passed. */
  const hit = (entries: Readonly<Record<string, string>>, hits = 1) => !rig.ask([{ entries }], hits).over;
  const bucketCount = () => memory?.bucketCount;
  return { rig, clock, store, hit, admin, bucketCount };
}

function wrap(memory: Store, clock: ManualClock): Pick<OpenedStore, "store" | "memories"> {
  const store = new DenialMemory(memory, { clock, entriesMax: 100 });
  const sync = new SyncStore(store, new Leases(store, () => 1, clock), clock);
  return { store: sync, memories: [sync, store] };
}

function of(entries: Readonly<Record<string, string>>, globalLimit = false): AskedBuckets {
  const list = Object.entries(entries).map(([key, value]) => ({ key, value }));
  return { domain: "edge", descriptors: list.length === 0 ? [] : [{ entries: list }], globalLimit };
}

const AS_NEW = { remaining: 10, waitSeconds: 0, resetSeconds: 0 };
const one = (limit: string, more = "") => `domain: edge
descriptors: [{ key: k${more}, rate_limit: { ${limit} } }]`;

const KINDS = [
  { kind: "token bucket", limit: "requests_per_unit: 10, unit: minute, algorithm: token_bucket" },
  { kind: "sliding window", limit: "requests_per_unit: 10, unit: minute" },
  { kind: "fixed window", limit: "requests_per_unit: 10, unit: minute, algorithm: fixed_window" },
  { kind: "sliding log", limit: "requests_per_unit: 10, unit: minute, algorithm: sliding_log" },
];

// Promise(operators): Operators' questions about buckets don't count as calls.
test("questions about buckets count no descriptor as one that met no rule", async () => {
  const { rig, admin } = openRig(
    `global_limit: { requests_per_unit: 5, unit: hour }\n${one("requests_per_unit: 10, unit: minute")}`,
  );
  for (const asked of [of({ k: "a" }, true), of({ nothing: "here" }), of({}, true)]) {
    await admin.peek(asked);
    await admin.reset(asked);
  }
  expect(rig.limiter.rules?.domains.get("edge")?.stats).toMatchObject({ descriptors: 0, exampleKeys: [] });
});

describe("a bucket that several limits see", () => {
  const RULES = `domain: edge
limits:
  free: { requests_per_unit: 10, unit: day, algorithm: fixed_window }
  gold: { requests_per_unit: 100, unit: day, algorithm: fixed_window, priority: { entry: class, high: 20% } }
descriptors: [{ key: tenant, tier: { entry: plan, default: free } }]`;

  test("is shown as the entries of the question see it, and reset for all", async () => {
    const { hit, admin } = openRig(RULES, { wrapped: true });
    hit({ tenant: "a", plan: "gold" }, 75);
    const left = async (more: object) => {
      const [report] = await admin.peek(of({ tenant: "a", ...more }));
      return [report?.limit.names.id, report?.snapshot.remaining];
    };
    expect(await left({})).toEqual(["edge/tenant#free", 0]);
    expect(await left({ plan: "gold" })).toEqual(["edge/tenant#gold/low", 5]);
    expect(await left({ plan: "gold", class: "high" })).toEqual(["edge/tenant#gold", 25]);
    for (const plan of ["free", "gold"]) hit({ tenant: "a", plan }, 50);
    await admin.reset(of({ tenant: "a" }));
    expect(await left({ plan: "gold", class: "high" })).toEqual(["edge/tenant#gold", 100]);
    expect(hit({ tenant: "a", plan: "gold" }, 80)).toBe(true);
  });
});

describe.each(KINDS)("a $kind", ({ limit }) => {
  const step = fc.record({ hits: fc.constantFrom(1, 3, 10, 11, 5_000_000_000), waitMs: fc.nat(90_000) });

  // Promise(operators): A reset gives back the full limit once, for every process and any `sync`.
  test.each([
    { name: "charged by calls", more: "" },
    { name: "run into debt by reports after the fact", more: ", post_paid: true" },
  ])("$name is full after a reset, whatever came before", async ({ more }) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
        const { clock, hit, admin } = openRig(one(limit, more));
        for (const { hits, waitMs } of steps) {
          hit({ k: "a" }, hits);
          clock.advanceMs(waitMs);
        }
        const [seen] = await admin.peek(of({ k: "a" }));
        const [reset] = await admin.reset(of({ k: "a" }));
        expect(reset).toMatchObject({ before: seen?.snapshot, snapshot: AS_NEW });
        expect(await admin.peek(of({ k: "a" }))).toMatchObject([{ snapshot: AS_NEW }]);
      }),
      { numRuns: runs(40) },
    );
  });

  test("shows what is left, pays nothing for it, and leaves the buckets of others alone", async () => {
    const { hit, admin } = openRig(one(limit));
    for (let i = 0; i < 10; i++) hit({ k: "a" });
    hit({ k: "b" });
    for (let i = 0; i < 3; i++) {
      const [seen] = await admin.peek(of({ k: "a" }));
      expect(seen?.snapshot.remaining).toBe(0);
      expect(seen?.snapshot.waitSeconds).toBeGreaterThan(0);
      expect(seen?.snapshot.resetSeconds).toBeGreaterThanOrEqual(seen?.snapshot.waitSeconds ?? 0);
    }
    await admin.reset(of({ k: "a" }));
    expect((await admin.peek(of({ k: "b" })))[0]?.snapshot.remaining).toBe(9);
    expect(hit({ k: "a" })).toBe(true);
  });
});

describe("through leases and denial memory", () => {
  // Promise(operators): A reset gives back the full limit once, for every process and any `sync`.
  test.each([
    { sync: "exact", limit: KINDS[0]?.limit },
    { sync: "lease", limit: `${KINDS[0]?.limit}, sync: lease` },
    { sync: "lease of a window", limit: `${KINDS[2]?.limit}, sync: lease` },
  ])("a bucket under $sync passes its whole limit again after a reset, and no more", async ({ limit }) => {
    const { hit, admin, clock } = openRig(one(limit ?? ""), { wrapped: true });
    const passed = () => Array.from({ length: 30 }, () => hit({ k: "a" })).filter(Boolean).length;
    expect(passed()).toBe(10);
    clock.advanceMs(1);
    expect((await admin.peek(of({ k: "a" })))[0]?.snapshot.remaining).toBe(0);
    const [reset] = await admin.reset(of({ k: "a" }));
    expect(reset).toMatchObject({ before: { remaining: 0 }, snapshot: AS_NEW });
    expect(passed()).toBe(10);
  });

  test("what is leased in advance does not come on top of a bucket that was reset", async () => {
    const rules = one("requests_per_unit: 100, unit: hour, algorithm: token_bucket, sync: lease");
    const { hit, admin, clock } = openRig(rules, { wrapped: true });
    for (let i = 0; i < 10; i++) {
      hit({ k: "a" });
      clock.advanceMs(1);
    }
    await admin.reset(of({ k: "a" }));
    expect(Array.from({ length: 200 }, () => hit({ k: "a" })).filter(Boolean)).toHaveLength(100);
  });
});

test("shows live holds of buckets that have them, and of no others", async () => {
  const rules = `domain: edge
descriptors:
  - key: k
    hold: { id: request_id, ttl: 60s }
    concurrent: 3
    rate_limit: { requests_per_unit: 10, unit: hour, algorithm: fixed_window }
  - { key: plain, rate_limit: { requests_per_unit: 10, unit: hour } }`;
  const { clock, hit, admin } = openRig(rules);
  const told = async () => (await admin.peek(of({ k: "a" }))).map(({ snapshot }) => snapshot.liveHolds);
  expect(await told()).toEqual([0, 0]);
  hit({ k: "a", request_id: "r1" });
  clock.advanceSeconds(20);
  hit({ k: "a", request_id: "r2" });
  hit({ k: "b", request_id: "r3" });
  expect(await told()).toEqual([2, 2]);
  clock.advanceSeconds(40);
  expect(await told()).toEqual([1, 1]);
  expect((await admin.reset(of({ k: "a" }))).map(({ before }) => before.liveHolds)).toEqual([1, 1]);
  expect((await admin.peek(of({ plain: "a" })))[0]?.snapshot).not.toHaveProperty("liveHolds");
});

describe("counters of the compatibility mode", () => {
  const rules = one("requests_per_unit: 10, unit: minute");

  test("are shown without being made, and begin again", async () => {
    const { hit, admin, bucketCount, clock } = openRig(rules, { compatible: true });
    expect(await admin.peek(of({ k: "a" }))).toMatchObject([{ snapshot: AS_NEW }]);
    expect(bucketCount()).toBe(0);
    clock.advanceSeconds(20);
    hit({ k: "a" }, 25);
    const over = { remaining: 0, waitSeconds: 40, resetSeconds: 40 };
    expect(await admin.peek(of({ k: "a" }))).toMatchObject([
      { bucketKey: expect.stringContaining("edge_k_a_"), snapshot: over },
    ]);
    expect(await admin.reset(of({ k: "a" }))).toMatchObject([{ before: over, snapshot: AS_NEW }]);
    expect(await admin.peek(of({ k: "a" }))).toMatchObject([{ snapshot: AS_NEW }]);
  });

  test("are forgotten by the local cache", async () => {
    const { rig, hit, admin } = openRig(rules, { compatible: true, localCacheBytes: 1_000_000 });
    for (let i = 0; i < 12; i++) hit({ k: "a" });
    expect(rig.localCache?.size).toBe(1);
    await admin.reset(of({ k: "a" }));
    expect(rig.localCache?.size).toBe(0);
    expect(hit({ k: "a" })).toBe(true);
  });
});

describe("which buckets are meant", () => {
  const rules = `domain: edge
global_limit: { requests_per_unit: 100, unit: hour }
descriptors:
  - key: k
    rate_limits:
      - { name: short, requests_per_unit: 5, unit: minute }
      - { name: long, requests_per_unit: 50, unit: hour }
  - key: llm
    post_paid: true
    rate_limit: { requests_per_unit: 10, unit: day }
`;
  const meant = async (asked: AskedBuckets) =>
    (await openRig(rules).admin.peek(asked)).map(({ descriptor, limit }) => [descriptor ?? "global", limit.names.name]);

  test.each([
    {
      name: "every limit of a rule",
      asked: of({ k: "a" }),
      found: [
        [0, "short"],
        [0, "long"],
      ],
    },
    { name: "the global limit by name alone", asked: of({}, true), found: [["global", ""]] },
    {
      name: "the global limit with a post-paid rule",
      asked: of({ llm: "a" }, true),
      found: [
        [0, ""],
        ["global", ""],
      ],
    },
    { name: "nothing without a rule", asked: of({ other: "a" }), found: [] },
    { name: "nothing in an unknown domain", asked: { ...of({ k: "a" }), domain: "other" }, found: [] },
    {
      name: "one bucket once, however often it is named",
      asked: { ...of({ llm: "a" }), descriptors: [...of({ llm: "a" }).descriptors, ...of({ llm: "a" }).descriptors] },
      found: [[0, ""]],
    },
    {
      name: "the bucket of a limit that callers send",
      asked: { ...of({}), descriptors: [{ entries: [{ key: "x", value: "y" }], override: { amount: 7, unit: 2 } }] },
      found: [[0, ""]],
    },
  ])("$name", async ({ asked, found }) => {
    expect(await meant(asked)).toEqual(found);
  });
});

test("a store that does not answer is an error, and nothing is said to be reset", async () => {
  const failure = new StoreError("STORE_TIMEOUT", "no reply");
  const openStore = (clock: ManualClock) => Object.assign(new ScriptedStore(clock), { failure });
  const { admin } = openRig(one("requests_per_unit: 10, unit: minute"), { openStore });
  await expect(admin.peek(of({ k: "a" }))).rejects.toBe(failure);
  await expect(admin.reset(of({ k: "a" }))).rejects.toBe(failure);
});
