// Calls over shards whose answers come late, in another order or never, and whose callers may be gone by then: no bucket
// lets more pass than its limit, and none keeps what a refused call had paid, but for what is lost on the way.

import fc from "fast-check";
import { expect, test } from "vitest";
import { StoreError } from "../../src/base/errors.ts";
import type { Store, TakeListener } from "../../src/engine/domain/store.ts";
import {
  copyAnswer,
  copyQuestion,
  Mode,
  Outcome,
  type Take,
  TakeGroup,
  Verdict,
} from "../../src/engine/domain/take.ts";
import type { LimitCall } from "../../src/engine/limiter/call.ts";
import { DenialMemory } from "../../src/stores/denials/denial-memory.ts";
import { SeveralStores } from "../../src/stores/sharded/sharded-calls.ts";
import { Leases } from "../../src/stores/sync/lease.ts";
import { SyncStore } from "../../src/stores/sync/sync-store.ts";
import { LimiterRig } from "../support/limiter-rig.ts";
import type { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { ReferenceStore } from "./reference-store.ts";

const DEADLINE_US = 200_000;
const BURST = 10;
const RATE = 10;
const RULES = `
domain: edge
descriptors:
  - { key: at0, on_store_failure: deny, rate_limit: { tokens_per_second: ${RATE}, burst: ${BURST} } }
  - { key: at1, rate_limit: { requests_per_unit: 12, unit: day, algorithm: fixed_window } }
  - { key: at2, on_store_failure: local, rate_limit: { tokens_per_second: ${RATE}, burst: ${BURST} } }
  - { key: over1, quota_mode: true, rate_limit: { requests_per_unit: 6, unit: day, algorithm: fixed_window } }
  - { key: over2, on_store_failure: error, rate_limit: { requests_per_unit: 8, unit: day, algorithm: fixed_window } }
`;
const KEYS = ["at0", "at1", "at2", "over1", "over2"] as const;

/** How long a message is under way each way, and whether it gets lost there or on its way back. */
interface Way {
  readonly thereUs: number;
  readonly backUs: number;
  readonly isLost: boolean;
}

/** What is to happen at which time. */
class Events {
  readonly #clock: ManualClock;
  readonly #waiting: { readonly atUs: number; readonly act: () => void }[] = [];

  constructor(clock: ManualClock) {
    this.#clock = clock;
  }

  after(us: number, act: () => void): void {
    const atUs = this.#clock.nowUs() + us;
    const at = this.#waiting.findIndex((other) => other.atUs > atUs);
    this.#waiting.splice(at < 0 ? this.#waiting.length : at, 0, { atUs, act });
  }

  runUntil(untilUs: number): void {
    for (let next = this.#waiting[0]; next !== undefined && next.atUs <= untilUs; next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#clock.setUs(next.atUs);
      next.act();
    }
    this.#clock.setUs(untilUs);
  }
}

/** A payment that a shard made: from which bucket, how much, when. */
interface Payment {
  readonly limitId: string;
  readonly cost: number;
  readonly atUs: number;
}

/** A store behind a way: it answers as stores/batching does, and what comes back too late is given back. */
class DistantShard implements Store {
  readonly #clock: ManualClock;
  readonly #events: Events;
  readonly #nextWay: () => Way;
  readonly behind: ReferenceStore;
  /** Payments whose answer was lost: they stay, and are counted (StoreObserver.outcomeUnknown). */
  readonly lost: Payment[] = [];
  /** For how long payments were held that were given back in the end, by limit. */
  readonly heldUs = new Map<string, number>();
  /** What was left in buckets right after something had been given back to them. */
  readonly leftThen: { readonly limitId: string; readonly left: number; readonly atUs: number }[] = [];

  constructor(clock: ManualClock, events: Events, nextWay: () => Way) {
    this.#clock = clock;
    this.#events = events;
    this.#nextWay = nextWay;
    this.behind = new ReferenceStore(clock);
  }

  take(group: TakeGroup, then: TakeListener): boolean {
    const { generation } = group;
    const asked = copyOf(group);
    const way = this.#nextWay();
    const latestUs = this.#clock.nowUs() + DEADLINE_US;
    let isAnswered = false;
    const answer = (write: () => void) => {
      isAnswered = true;
      if (group.generation !== generation) return;
      write();
      then.answered(group, generation);
    };
    this.#events.after(way.thereUs, () => {
      if (this.#clock.nowUs() > latestUs) return;
      this.behind.take(asked);
      if (way.isLost) this.lost.push(...paymentsOf(asked));
      else
        this.#events.after(way.backUs, () => {
          if (isAnswered || group.generation !== generation) this.giveBack(asked);
          else answer(() => writeTo(group, asked));
        });
    });
    this.#events.after(DEADLINE_US, () => {
      if (isAnswered) return;
      answer(() => {
        group.verdict = Verdict.failed;
        group.failure = new StoreError("STORE_TIMEOUT", "no reply");
      });
    });
    return false;
  }

  giveBack(group: TakeGroup): void {
    const returned = copyOf(group);
    for (let i = 0; i < group.size; i++) copyAnswer(group.takes[i] as Take, returned.takes[i] as Take);
    this.#events.after(this.#nextWay().thereUs, () => {
      for (const { limitId, atUs } of paymentsOf(returned)) {
        const heldUs = this.#clock.nowUs() - atUs;
        this.heldUs.set(limitId, (this.heldUs.get(limitId) ?? 0) + heldUs);
      }
      this.behind.giveBack(returned);
      for (const take of returned.takes.slice(0, returned.size)) {
        this.leftThen.push({
          limitId: take.limit.names.id,
          left: leftIn(this.behind, take),
          atUs: this.#clock.nowUs(),
        });
      }
    });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function copyOf(group: TakeGroup): TakeGroup {
  const copy = new TakeGroup();
  copy.hasSpareQuota = group.hasSpareQuota;
  for (const take of group.takes.slice(0, group.size)) copyQuestion(take, copy);
  return copy;
}

function writeTo(group: TakeGroup, answered: TakeGroup): void {
  group.verdict = answered.verdict;
  for (let i = 0; i < group.size; i++) copyAnswer(answered.takes[i] as Take, group.takes[i] as Take);
}

/** What the group has paid that stands in a bucket behind a way. */
function paymentsOf(group: TakeGroup): Payment[] {
  return group.takes
    .slice(0, group.size)
    .filter(({ paid, byPolicy }) => paid && !byPolicy)
    .map(({ limit, cost, paidAtUs }) => ({ limitId: limit.names.id, cost, atUs: paidAtUs }));
}

/** A call: after what pause, which descriptors with what hits, and when its caller goes, if it does. */
interface Asked {
  readonly pauseUs: number;
  readonly keys: readonly (typeof KEYS)[number][];
  readonly hits: number;
  readonly goneAfterUs: number | undefined;
}

const ways = fc.record({
  thereUs: fc.nat(300_000),
  backUs: fc.nat(300_000),
  isLost: fc.integer({ min: 0, max: 9 }).map((number) => number === 0),
});
const calls = fc.array(
  fc.record({
    pauseUs: fc.nat(150_000),
    keys: fc.uniqueArray(fc.constantFrom(...KEYS), { minLength: 1, maxLength: 4 }),
    hits: fc.integer({ min: 1, max: 6 }),
    goneAfterUs: fc.option(fc.nat(400_000), { nil: undefined, freq: 4 }),
  }),
  { minLength: 1, maxLength: 25 },
);

/** Sends the calls and waits until nothing is under way any more. */
function play(asked: readonly Asked[], allWays: readonly Way[]) {
  const shards: DistantShard[] = [];
  let events: Events | undefined;
  let sent = 0;
  const nextWay = () => allWays[sent++ % allWays.length] as Way;
  const openStore = (clock: ManualClock) => {
    const on = new Events(clock);
    events = on;
    shards.push(...[0, 1, 2].map(() => new DistantShard(clock, on, nextWay)));
    const [first, ...others] = shards as [DistantShard, ...DistantShard[]];
    let memory: DenialMemory | undefined;
    const several = new SeveralStores(
      [first, ...others],
      ({ limit }) => Number(limit.names.path.at(-1)),
      (take) => memory?.forgetRefusal(take),
    );
    memory = new DenialMemory(several, { clock, entriesMax: 100 });
    return new SyncStore(memory, new Leases(memory, () => 1, clock), clock);
  };
  const rig = new LimiterRig(RULES, { openStore });
  if (events === undefined) throw new Error("expected the rig to open its store");
  const { clock } = rig;
  const standing: LimitCall[] = [];
  for (const { pauseUs, keys, hits, goneAfterUs } of asked) {
    events.runUntil(clock.nowUs() + pauseUs);
    const call = rig.begin(
      keys.map((key) => ({ entries: { [key]: "x" }, hits })),
      0,
      "edge",
    );
    standing.push(call);
    rig.limiter.decide(call, Number.POSITIVE_INFINITY);
    if (goneAfterUs !== undefined && call.group.verdict === Verdict.pending) {
      events.after(goneAfterUs, () => {
        if (call.group.verdict === Verdict.pending) call.reset();
      });
    }
  }
  events.runUntil(clock.nowUs() + 10 * DEADLINE_US);
  const payments = [...standing.flatMap((call) => paymentsOf(call.group)), ...shards.flatMap(({ lost }) => lost)];
  return { clock, shards, standing, payments };
}

/** Cost that would pass now of the take's bucket. */
function leftIn(store: ReferenceStore, take: Take): number {
  const peek = new TakeGroup();
  copyQuestion(take, peek).mode = Mode.peek;
  store.take(peek);
  return peek.takes[0]?.remaining ?? 0;
}

/** Debt of a token bucket that was paid by these alone; fails where one of them should have found no room. */
function debtAfter(payments: readonly Payment[], nowUs: number): number {
  let debt = 0;
  let atUs = 0;
  for (const payment of payments.toSorted((one, other) => one.atUs - other.atUs)) {
    debt = Math.max(0, debt - ((payment.atUs - atUs) * RATE) / 1e6) + payment.cost;
    atUs = payment.atUs;
    expect(debt).toBeLessThanOrEqual(BURST + 1e-6);
  }
  return Math.max(0, debt - ((nowUs - atUs) * RATE) / 1e6);
}

// Promise(outages): Late, lost and crossing answers let nothing pass beyond a limit.
test("late, lost and crossing answers let nothing pass beyond a limit, and keep nothing of what did not pass", () => {
  fc.assert(
    fc.property(calls, fc.array(ways, { minLength: 1, maxLength: 60 }), (asked, allWays) => {
      const { clock, shards, standing, payments } = play(asked, allWays);
      standing.forEach(expectAnswered);
      for (const key of KEYS) {
        const shard = shards[Number(key.at(-1))] as DistantShard;
        const take = standing
          .flatMap(({ group }) => group.takes.slice(0, group.size))
          .find(({ limit }) => limit.names.path === key);
        if (take === undefined) continue;
        const { limit } = take;
        const left = leftIn(shard.behind, take);
        const paid = payments.filter(({ limitId }) => limitId === limit.names.id);
        if (limit.windowSeconds === 86_400) {
          const sum = paid.reduce((all, { cost }) => all + cost, 0);
          expect({ key, left }).toEqual({ key, left: limit.amount - sum });
          continue;
        }
        const heldInVain = ((shard.heldUs.get(limit.names.id) ?? 0) * RATE) / 1e6;
        expect(left).toBeGreaterThan(BURST - debtAfter(paid, clock.nowUs()) - heldInVain - 1.001);
        for (const then of shard.leftThen.filter(({ limitId }) => limitId === limit.names.id)) {
          const before = paid.filter(({ atUs }) => atUs < then.atUs);
          expect(then.left).toBeLessThanOrEqual(BURST - debtAfter(before, then.atUs) + 1e-6);
        }
      }
    }),
    { numRuns: runs(150) },
  );
});

/** A call that passes has paid every limit that has answered; any other none. */
function expectAnswered({ group, decision, failure }: LimitCall): void {
  const takes = group.takes.slice(0, group.size);
  expect(group.verdict === Verdict.pending && group.size > 0).toBe(false);
  const isAllowed = group.verdict === Verdict.allowed && !decision.overLimit && failure === undefined;
  expect(takes.map(({ paid }) => paid)).toEqual(takes.map(({ outcome }) => isAllowed && outcome === Outcome.room));
}
