// What metrics tell of holds, against a model that counts by itself: the same numbers after every call of generated histories,
// whatever store keeps the holds.

import fc from "fast-check";
import { expect, test } from "vitest";
import type { Store } from "../../src/engine/domain/store.ts";
import { Mode } from "../../src/engine/domain/take.ts";
import type { LimitCall } from "../../src/engine/limiter/call.ts";
import { type AskedDescriptor, LimiterRig } from "../support/limiter-rig.ts";
import type { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { HoldModel, NONE, SETTLED } from "./hold-models.ts";
import { type HoldOperation, holdOperations } from "./hold-operations.ts";

const TTL_US = 60_000_000;
const PLACES = 3;
const RULES = `
domain: edge
descriptors:
  - key: tenant
    hold: { id: request_id, estimate: max_tokens, ttl: 60s }
    concurrent: ${PLACES}
    rate_limit: { name: tokens, algorithm: fixed_window, requests_per_unit: 2000, unit: year }
`;

const operations = holdOperations({
  ids: ["a", "b", "c", "d", "e"],
  amounts: fc.integer({ min: 0, max: 90 }),
  distances: fc.oneof(
    { weight: 3, arbitrary: fc.integer({ min: 0, max: 5_000_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: TTL_US }) },
    { weight: 1, arbitrary: fc.constantFrom(0, 1, TTL_US, TTL_US - 1) },
  ),
});

/** What became of the holds of one limit. */
class Counts {
  readonly #isOfPlaces: boolean;
  readonly #model: HoldModel;
  readonly #told = { holdsOpened: 0, settlements: 0, heldUnused: 0, usedUnheld: 0, settledLate: 0, settledAgain: 0 };

  constructor(isOfPlaces: boolean) {
    this.#isOfPlaces = isOfPlaces;
    this.#model = new HoldModel({ rate: 0, burst: 0, ttl: TTL_US, isConcurrent: isOfPlaces });
  }

  get live(): number {
    return this.#model.live;
  }

  /** As metrics have it. */
  told() {
    return { ...this.#told, holdsExpired: this.#model.expired };
  }

  endDue(nowUs: number): void {
    this.#model.advance(nowUs);
  }

  pay(id: string, cost: number, nowUs: number): void {
    if (this.#model.pay(id, cost, nowUs)) this.#told.holdsOpened++;
  }

  settle(id: string, used: number, nowUs: number): void {
    const held = this.#model.settle(id, used, nowUs);
    if (held === SETTLED) this.#told.settledAgain++;
    else if (held === NONE) this.#told.settledLate++;
    else {
      this.#told.settlements++;
      if (this.#isOfPlaces) return;
      this.#told.heldUnused += Math.max(0, held - used);
      this.#told.usedUnheld += Math.max(0, used - held);
    }
  }
}

/** Asks a store that answers at once or later. */
class HoldRig extends LimiterRig {
  #onEnd: () => void = () => undefined;

  override finish(): void {
    this.#onEnd();
  }

  async call(descriptor: AskedDescriptor): Promise<LimitCall> {
    const call = this.begin([descriptor], 0, "edge");
    await new Promise<void>((resolve) => {
      this.#onEnd = resolve;
      if (this.limiter.decide(call, Number.POSITIVE_INFINITY)) resolve();
    });
    return call;
  }
}

/** A store for one history, and its clock if that is not the rig's. */
export interface MeasuredStore {
  readonly open: (clock: ManualClock) => Store;
  readonly clock?: ManualClock;
  /** Its live holds are this process's to count. */
  readonly keepsHolds: boolean;
}

let histories = 0;

async function expectCounted(
  asked: readonly HoldOperation[],
  store: MeasuredStore,
  seen: Map<string, number>,
): Promise<void> {
  const rig = new HoldRig(RULES, { openStore: store.open });
  // The store may be shared by all histories.
  const tenant = `t${histories++}`;
  const startUs = store.clock?.nowUs() ?? rig.clock.nowUs();
  const models = { tokens: new Counts(false), concurrent: new Counts(true) };
  let refusedPlaces = 0;
  let nowUs = startUs;
  for (const { afterUs, kind, id, amount } of asked) {
    nowUs += afterUs;
    rig.clock.setUs(nowUs);
    store.clock?.setUs(nowUs);
    for (const model of Object.values(models)) model.endDue(nowUs);
    if (kind === "pay") {
      const cost = Math.max(1, amount);
      if (models.concurrent.live >= PLACES) refusedPlaces++;
      const call = await rig.call({ entries: { tenant, request_id: id, max_tokens: String(cost) } });
      if (!call.decision.overLimit) models.tokens.pay(id, cost, nowUs);
      if (!call.decision.overLimit) models.concurrent.pay(id, 1, nowUs);
    } else if (kind === "settle") {
      const { group } = await rig.call({ entries: { tenant, request_id: id, settle: "" }, hits: amount });
      // The budget and its places tell one story of the id.
      const [one, other] = group.takes.slice(0, group.size).map(({ held }) => Math.min(held, 0));
      expect(one).toBe(other);
      models.tokens.settle(id, amount, nowUs);
      models.concurrent.settle(id, 0, nowUs);
    } else {
      const { group } = await rig.call({ entries: { tenant }, hits: 0 });
      const peeks = group.takes.slice(0, group.size).filter(({ mode }) => mode === Mode.peek);
      const told = peeks.toSorted((one, other) => Number(one.limit.isConcurrent) - Number(other.limit.isConcurrent));
      expect(told.map(({ liveHolds }) => liveHolds)).toEqual([models.tokens.live, models.concurrent.live]);
    }
    for (const [limit, model] of Object.entries(models)) {
      const stats = rig.statsBook.statsOf("edge", ["tenant"], limit);
      expect(stats).toMatchObject({ ...model.told(), holdsLive: store.keepsHolds ? model.live : 0 });
    }
    expect(rig.statsBook.statsOf("edge", ["tenant"], "concurrent").overLimit).toBe(refusedPlaces);
  }
  for (const [field, count] of Object.entries(models.tokens.told())) seen.set(field, (seen.get(field) ?? 0) + count);
}

/** Plays histories on stores that `open` gives, one for each history. */
export function describeHoldMetrics(open: () => MeasuredStore): void {
  // Promise(holds): Hold metrics count exactly what happened, on every store.
  test("holds are counted as a model counts them, whatever callers do with ids and reports", async () => {
    const seen = new Map<string, number>();
    const numRuns = runs(150);
    await fc.assert(
      fc.asyncProperty(operations, (asked) => expectCounted(asked, open(), seen)),
      { numRuns },
    );
    // Each thing has happened in most histories.
    for (const [field, count] of seen) expect([field, count > numRuns / 2]).toEqual([field, true]);
  });
}
