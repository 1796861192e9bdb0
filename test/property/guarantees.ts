// Services with guarantees on any stores, held against the exact model: every call passes the same way, and none within a
// guarantee that is kept is refused.

import fc from "fast-check";
import { expect } from "vitest";
import type { Clock } from "../../src/base/clock.ts";
import { wayOf } from "../../src/engine/domain/guarantee.ts";
import type { Store } from "../../src/engine/domain/store.ts";
import { copyQuestion, GLOBAL_DESCRIPTOR, isOver, Mode, type Take, TakeGroup } from "../../src/engine/domain/take.ts";
import { LimitCall } from "../../src/engine/limiter/call.ts";
import { LimiterRig } from "../support/limiter-rig.ts";
import {
  type AskedShare,
  askedShares,
  GuaranteeModel,
  keptFor,
  keptTokens,
  rulesOf,
  type SharedNumbers,
  sharedNumbers,
  type Way,
} from "./guarantee-model.ts";

/** A process. */
class Process extends LimiterRig {
  readonly #waiting = new Map<LimitCall, () => void>();
  readonly #store: Store;
  #last = new LimitCall(this);

  constructor(rules: string, openStore: (clock: Clock) => Store) {
    let opened: Store | undefined;
    super(rules, {
      openStore: (clock) => {
        opened = openStore(clock);
        return opened;
      },
    });
    this.#store = opened as unknown as Store;
  }

  override finish(call: LimitCall): void {
    this.#waiting.get(call)?.();
    this.#waiting.delete(call);
  }

  /** A call of these hits by a caller who may have a guarantee. */
  async share(caller: number | undefined, cost: number, isGlobal: boolean): Promise<Take> {
    const who = caller === undefined ? {} : { tenant: `t${caller}` };
    const descriptors = isGlobal
      ? [{ entries: { app: "a" } }, { entries: { user: "u", ...who } }]
      : [{ entries: { app: "a", ...who }, hits: cost }];
    const call = this.begin(descriptors, cost, "edge");
    await new Promise<void>((resolve) => {
      this.#waiting.set(call, resolve);
      if (this.limiter.decide(call, Number.POSITIVE_INFINITY)) this.finish(call);
    });
    this.#last = call;
    const shared = call.group.takes[call.group.size - 1] as Take;
    expect(call.failure).toBeUndefined();
    expect(shared.descriptor).toBe(isGlobal ? GLOBAL_DESCRIPTOR : 0);
    expect(call.decision.overLimit).toBe(isOver(shared));
    this.lastWay = isOver(shared)
      ? call.group.size > 1 && call.group.takes[0]?.waitUs === 0
        ? "broken"
        : "refused"
      : (wayOf(call.group, shared) ?? "borrowed");
    return shared;
  }

  lastWay: Way = "refused";

  /** Gives back what the last call has paid. */
  async giveBack(): Promise<void> {
    const { takes, size } = this.#last.group;
    const paid = takes.slice(0, size).filter((take) => take.paid);
    const peeks = paid.map((take) => {
      const group = new TakeGroup();
      copyQuestion(take, group).mode = Mode.peek;
      return group;
    });
    this.limiter.giveBackUnheard(this.#last);
    // What is given back travels ahead of later takes of the same queue, a few at a time: one peek for each.
    for (const peek of peeks)
      await new Promise<void>((resolve) => {
        if (this.#store.take(peek, { answered: () => resolve() })) resolve();
      });
  }
}

/** What is run: processes on one store, whose clock is moved along. */
export interface Fleet {
  readonly stores: readonly ((clock: Clock) => Store)[];
  /** Moves the stores' own clock. */
  readonly setUs: (nowUs: number) => void;
}

interface Scenario {
  readonly numbers: SharedNumbers;
  readonly callers: number;
  readonly isGlobal: boolean;
  readonly calls: readonly (AskedShare & {
    readonly process: number;
    /** How much more a call costs that asks again after a refusal. */
    readonly more: number;
    readonly changes: "nothing" | "edit" | "restart";
    /** After what time the last of them is given back, if it passed; undefined: not at all. */
    readonly givenBackAfterUs: number | undefined;
  })[];
}

export function scenarios(maxLength: number): fc.Arbitrary<Scenario> {
  return fc.tuple(sharedNumbers, fc.integer({ min: 1, max: 12 })).chain(([numbers, callers]) =>
    fc.record({
      numbers: fc.constant(numbers),
      callers: fc.constant(callers),
      isGlobal: fc.boolean(),
      calls: fc
        .tuple(
          askedShares(callers, maxLength),
          fc.array(fc.nat({ max: 2 }), { minLength: maxLength, maxLength }),
          fc.array(fc.nat({ max: 19 }), { minLength: maxLength, maxLength }),
          fc.array(fc.nat({ max: 2 }), { minLength: maxLength, maxLength }),
          fc.array(fc.option(fc.constantFrom(0, 1, 3_000, 20_000, 400_000)), { minLength: maxLength, maxLength }),
        )
        .map(([calls, processes, changes, more, givenBack]) =>
          calls.map((call, i) => ({
            ...call,
            process: processes[i] ?? 0,
            givenBackAfterUs: givenBack[i] ?? undefined,
            more: more[i] ?? 0,
            changes:
              changes[i] === 0 ? ("edit" as const) : changes[i] === 1 ? ("restart" as const) : ("nothing" as const),
          })),
        ),
    }),
  );
}

/** How many calls passed which way; `kept`: within guarantees that are kept. */
export type Seen = Record<Way | "kept" | "waits" | "givenBack", number>;

export const nothingSeen = (): Seen => ({
  guaranteed: 0,
  borrowed: 0,
  refused: 0,
  broken: 0,
  kept: 0,
  waits: 0,
  givenBack: 0,
});

/** A process that remembers a refusal does not hear that the guarantee has come to cover the cost, but the room has not. */
function expectWay(way: Way, exact: Way): void {
  expect(exact === "broken" && way === "refused" ? exact : way).toBe(exact);
}

/** Runs a scenario. An edit makes the shared limit larger, so that what was kept stays kept. */
export async function expectModel(scenario: Scenario, fleet: Fleet, startUs: number, seen: Seen): Promise<void> {
  const { callers, isGlobal, calls } = scenario;
  let { numbers } = scenario;
  const open = (store: (clock: Clock) => Store) => new Process(rulesOf(numbers, callers, isGlobal), store);
  const processes = fleet.stores.map(open);
  const model = new GuaranteeModel(numbers);
  let nowUs = startUs;
  const advance = (us: number) => {
    nowUs += us;
    fleet.setUs(nowUs);
    for (const { clock } of processes) clock.setUs(nowUs);
  };
  advance(0);
  const isKept = callers <= keptFor(numbers);
  for (const { caller, cost, afterUs, times, process: number, changes, more, givenBackAfterUs } of calls) {
    advance(afterUs);
    const at = number % processes.length;
    if (changes === "edit") {
      const { shared } = numbers;
      numbers = { ...numbers, shared: { ...shared, burst: shared.burst + 100 } };
      model.edit(numbers);
      for (const one of processes) one.useRules(rulesOf(numbers, callers, isGlobal));
    } else if (changes === "restart") {
      processes[at] = open(fleet.stores[at] as (clock: Clock) => Store);
      advance(0);
    }
    const asked = processes[at] as Process;
    for (let i = 0; i < times; i++) {
      const take = await asked.share(caller, cost, isGlobal);
      const way = asked.lastWay;
      const exact = model.ask(caller, cost, nowUs);
      expectWay(way, exact);
      seen[way]++;
      expect(isKept && exact === "broken").toBe(false);
      if (isKept && way === "guaranteed") seen.kept++;
      if (i < times - 1) continue;
      if (!isOver(take)) {
        if (givenBackAfterUs === undefined) continue;
        advance(givenBackAfterUs);
        await asked.giveBack();
        model.giveBack(nowUs);
        seen.givenBack++;
        continue;
      }
      // Asked with another cost, a process may answer by what it remembers: a microsecond late at most.
      const dearer = cost + more;
      const { waitUs } = more === 0 ? take : await asked.share(caller, dearer, isGlobal);
      expectWay(asked.lastWay, model.ask(caller, dearer, nowUs));
      const isCoverable = caller !== undefined && dearer <= Math.min(numbers.own.burst, numbers.shared.burst);
      const canPass = isCoverable || dearer <= numbers.shared.burst - keptTokens(numbers);
      // The wait is exact: a microsecond earlier no way is open yet.
      expect(waitUs > 0).toBe(canPass);
      if (!canPass) break;
      seen.waits++;
      const earlyUs = Math.min(waitUs, more === 0 ? 1 : 2);
      advance(waitUs - earlyUs);
      await asked.share(caller, dearer, isGlobal);
      expect(["refused", "broken"]).toContain(asked.lastWay);
      expectWay(asked.lastWay, model.ask(caller, dearer, nowUs));
      advance(earlyUs);
      await asked.share(caller, dearer, isGlobal);
      expect(["guaranteed", "borrowed"]).toContain(asked.lastWay);
      expectWay(asked.lastWay, model.ask(caller, dearer, nowUs));
    }
  }
}
