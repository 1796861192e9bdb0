// A missing answer concerns its own limits alone: every policy with every kind of rule, in two shards of which either,
// both or none answers, against an oracle that knows nothing of takes, receipts and folds.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StoreError } from "../../src/base/errors.ts";
import type { Store, TakeListener } from "../../src/engine/domain/store.ts";
import { copyQuestion, Mode, TakeGroup } from "../../src/engine/domain/take.ts";
import { DenialMemory } from "../../src/stores/denials/denial-memory.ts";
import { SeveralStores } from "../../src/stores/sharded/sharded-calls.ts";
import { Leases } from "../../src/stores/sync/lease.ts";
import { SyncStore } from "../../src/stores/sync/sync-store.ts";
import { LimiterRig } from "../support/limiter-rig.ts";
import type { ManualClock } from "../support/manual-clock.ts";
import { part, runs } from "../support/runs.ts";
import { ScriptedStore } from "../support/scripted-store.ts";

const KINDS = ["ordinary", "quota", "shadow"] as const;
const POLICIES = ["allow", "deny", "local", "error"] as const;
const AMOUNTS = [0, 2, 3] as const;
const DOWN = new StoreError("STORE_UNREACHABLE", "away");

type KindName = (typeof KINDS)[number];
type Policy = (typeof POLICIES)[number];

/** One limit of a case: what it says, and in which of the two shards its bucket lies. */
interface Numbers {
  readonly policy: Policy;
  readonly amount: number;
  readonly shard: number;
}

/** A descriptor of a call: its kind, and its limits. */
interface Asked {
  readonly kind: KindName;
  readonly limits: readonly Numbers[];
}

/** A call: whether SHADOW_MODE is on, what it asks, and the domain's global limit if it has one. */
interface Shape {
  readonly shadowMode: boolean;
  readonly descriptors: readonly Asked[];
  readonly global: Numbers | undefined;
}

const nameOf = ({ policy, amount, shard }: Numbers) => `at${shard}-${policy}-${amount}`;
const limitText = (limit: Numbers) =>
  `{ name: ${nameOf(limit)}, requests_per_unit: ${limit.amount}, unit: day, algorithm: fixed_window, on_store_failure: ${limit.policy} }`;

function rulesText({ descriptors, global }: Shape): string {
  const rules = descriptors.map(({ kind, limits }, i) => {
    const mode = kind === "ordinary" ? "" : `${kind}_mode: true, `;
    return `  - { key: k${i}, ${mode}rate_limits: [${limits.map(limitText).join(", ")}] }`;
  });
  const text = global === undefined ? "" : `global_limit: ${limitText(global)}\n`;
  return `domain: edge\n${text}descriptors:\n${rules.join("\n")}\n`;
}

function refuses(found: readonly { readonly kind: KindName; readonly isOver: boolean }[]): boolean {
  const quotas = found.filter(({ kind }) => kind === "quota");
  // A shadow rule under quota_mode would be spare; here kinds exclude each other.
  return (
    found.some(({ kind, isOver }) => kind === "ordinary" && isOver) ||
    (quotas.length > 0 && quotas.every(({ isOver }) => isOver))
  );
}

/** What a call should come to, by the sentences of docs/rules-file.md. */
class Oracle {
  readonly #shape: Shape;
  /** Hits that stand, by limit: at its shard, and here since its shard was last heard of. */
  readonly #there = new Map<Numbers, number>();
  readonly #here = new Map<Numbers, number>();

  constructor(shape: Shape) {
    this.#shape = shape;
  }

  /** Hits that limits with `deny` found over, and of these the ones that no shard answered. */
  readonly over = new Map<Numbers, { readonly all: number; readonly unanswered: number }>();

  /** Hits that stand at the limit's shard. */
  used(limit: Numbers): number {
    return this.#there.get(limit) ?? 0;
  }

  ask(isUp: readonly boolean[]): "OK" | "OVER" | "ERROR" {
    const { shadowMode, descriptors, global } = this.#shape;
    const all: Asked[] = [...descriptors];
    if (global !== undefined) all.push({ kind: "ordinary", limits: [global] });
    const found = all.map(({ kind, limits }) => ({
      kind: shadowMode ? ("shadow" as const) : kind,
      limits,
      isOver: limits.some((limit) => this.#isOver(limit, isUp)),
      isOverThere: limits.some((limit) => isUp[limit.shard] === true && this.#isOver(limit, isUp)),
    }));
    const isRefused = refuses(found);
    // Then what was not answered has no say.
    const isRefusedThere = refuses(found.map(({ kind, isOverThere }) => ({ kind, isOver: isOverThere })));
    const isError = found.some(
      ({ kind, limits }) =>
        kind !== "shadow" && limits.some(({ policy, shard }) => policy === "error" && isUp[shard] !== true),
    );
    const code = isRefused ? "OVER" : isError ? "ERROR" : "OK";
    for (const { limits, isOver } of found) {
      for (const limit of limits) {
        // An error is no refusal, and counts nothing.
        if (code !== "ERROR" && (isUp[limit.shard] || !isRefusedThere)) this.#countOver(limit, isUp);
        this.#pay(limit, isUp, code === "OK" && !isOver);
      }
    }
    return code;
  }

  #countOver(limit: Numbers, isUp: readonly boolean[]): void {
    if (limit.policy !== "deny" || !this.#isOver(limit, isUp)) return;
    const { all, unanswered } = this.over.get(limit) ?? { all: 0, unanswered: 0 };
    this.over.set(limit, { all: all + 1, unanswered: unanswered + (isUp[limit.shard] ? 0 : 1) });
  }

  #isOver(limit: Numbers, isUp: readonly boolean[]): boolean {
    if (isUp[limit.shard]) return this.used(limit) >= limit.amount;
    if (limit.policy === "deny") return true;
    return limit.policy === "local" && (this.#here.get(limit) ?? 0) >= limit.amount;
  }

  #pay(limit: Numbers, isUp: readonly boolean[], isPaid: boolean): void {
    const hits = isPaid ? 1 : 0;
    if (isUp[limit.shard]) {
      this.#there.set(limit, this.used(limit) + hits);
      // From here on it is counted here from what the shard said last.
      this.#here.set(limit, this.used(limit));
    } else if (limit.policy === "local") this.#here.set(limit, (this.#here.get(limit) ?? 0) + hits);
  }
}

/** A shard that tells how many hits a limit's bucket holds. */
class Shard extends ScriptedStore {
  readonly #peeks = new Map<string, TakeGroup>();

  override take(group: TakeGroup, then: TakeListener): boolean {
    for (const take of group.takes.slice(0, group.size)) {
      const peek = new TakeGroup();
      copyQuestion(take, peek).mode = Mode.peek;
      this.#peeks.set(`${take.limit.names.path}#${take.limit.names.name}`, peek);
    }
    return super.take(group, then);
  }

  /** To be asked while the shard answers. */
  used(path: string, limit: Numbers): number {
    const peek = this.#peeks.get(`${path}#${nameOf(limit)}`);
    if (peek === undefined) return 0;
    super.take(peek, { answered: () => undefined });
    return limit.amount - (peek.takes[0]?.remaining ?? 0);
  }
}

/** All that stands before shared stores in a process. */
function inFrontOf(store: Store, clock: ManualClock): Store {
  const memory = new DenialMemory(store, { clock, entriesMax: 100 });
  return new SyncStore(memory, new Leases(memory, () => 1, clock), clock);
}

/** Sends a call for each of `schedule`, which says what shards answer, and compares with the oracle after each. */
function compare(shape: Shape, schedule: readonly (readonly boolean[])[]): void {
  const shards: Shard[] = [];
  const openStore = (clock: ManualClock) => {
    const pair: [Shard, Shard] = [new Shard(clock), new Shard(clock)];
    shards.push(...pair);
    return inFrontOf(new SeveralStores(pair, ({ limit }) => Number(limit.names.name[2])), clock);
  };
  const rig = new LimiterRig(rulesText(shape), { openStore, shadowMode: shape.shadowMode });
  const oracle = new Oracle(shape);
  const asked = shape.descriptors.map((_, i) => ({ entries: { [`k${i}`]: "x" } }));
  for (const isUp of schedule) {
    // Beyond what a refusal is remembered, which would stand for an answer.
    rig.clock.advanceSeconds(2);
    shards.forEach((shard, i) => {
      shard.failure = isUp[i] ? undefined : DOWN;
    });
    const { over, failure } = rig.ask(asked);
    const code = failure === "store" ? "ERROR" : over ? "OVER" : "OK";
    const expected = oracle.ask(isUp);
    for (const shard of shards) shard.failure = undefined;
    const found = `${code} ${usedBy(shape, (path, limit) => shards[limit.shard]?.used(path, limit) ?? 0)}`;
    const wanted = `${expected} ${usedBy(shape, (_path, limit) => oracle.used(limit))}`;
    // Called for what differs alone: there are thousands.
    if (found !== wanted) expect(found, JSON.stringify({ shape, schedule, isUp })).toBe(wanted);
  }
  for (const [path, limit] of limitsOf(shape)) {
    if (limit.policy !== "deny") continue;
    const stats = rig.statsBook.stats.get(["edge", ...path, nameOf(limit)].join("|"));
    const { all, unanswered } = oracle.over.get(limit) ?? { all: 0, unanswered: 0 };
    if (stats?.overLimit === all && stats.deniedUnanswered === unanswered) continue;
    expect(stats, JSON.stringify({ shape, schedule })).toMatchObject({ overLimit: all, deniedUnanswered: unanswered });
  }
}

function limitsOf({ descriptors, global }: Shape): [string[], Numbers][] {
  const own = descriptors.flatMap(({ limits }, i) => limits.map((limit): [string[], Numbers] => [[`k${i}`], limit]));
  return global === undefined ? own : [...own, [[], global]];
}

function usedBy({ descriptors, global }: Shape, usedOf: (path: string, limit: Numbers) => number): number[] {
  const used = descriptors.flatMap(({ limits }, i) => limits.map((limit) => usedOf(`k${i}`, limit)));
  return global === undefined ? used : [...used, usedOf("", global)];
}

const numbers = fc.record({
  policy: fc.constantFrom(...POLICIES),
  amount: fc.constantFrom(...AMOUNTS),
  shard: fc.nat(1),
});
const shapes: fc.Arbitrary<Shape> = fc.record({
  shadowMode: fc.boolean(),
  descriptors: fc.array(
    fc.record({
      kind: fc.constantFrom(...KINDS),
      limits: fc.uniqueArray(numbers, { minLength: 1, maxLength: 3, selector: nameOf }),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  global: fc.option(numbers, { nil: undefined }),
});

/** Every policy with every kind of two limits, one at each shard: as two descriptors, as one, and the first one global. */
function* allPairs(): Generator<Shape> {
  for (const policy of POLICIES)
    for (const otherPolicy of POLICIES)
      for (const amount of [0, 2])
        for (const otherAmount of [0, 2])
          for (const shadowMode of [false, true]) {
            const one: Numbers = { policy, amount, shard: 0 };
            const other: Numbers = { policy: otherPolicy, amount: otherAmount, shard: 1 };
            for (const kind of KINDS) {
              for (const otherKind of KINDS) {
                const descriptors = [
                  { kind, limits: [one] },
                  { kind: otherKind, limits: [other] },
                ];
                yield { shadowMode, descriptors, global: undefined };
              }
              yield { shadowMode, descriptors: [{ kind, limits: [one, other] }], global: undefined };
              yield { shadowMode, descriptors: [{ kind, limits: [other] }], global: one };
            }
          }
}

const UP = [true, true];
/** About a second of a quiet machine. */
const TABLE_MS_MAX = 60_000;
const EACH_AWAY = [UP, [false, true], [true, false], [false, false], [false, true], [false, true], UP];

describe("a missing answer concerns its own limits alone", () => {
  // Promise(outages): A missing answer affects only its own limits, whatever the policy, the rule and the shard.
  test(
    "with every policy, kind and room of two limits, whichever shard is away",
    () => {
      for (const shape of part([...allPairs()])) compare(shape, EACH_AWAY);
    },
    TABLE_MS_MAX,
  );

  // Promise(outages): A missing answer affects only its own limits, whatever the policy, the rule and the shard.
  test("with any limits, while shards come and go", () => {
    const schedules = fc.array(fc.tuple(fc.boolean(), fc.boolean()), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(shapes, schedules, (shape, schedule) => compare(shape, schedule)),
      { numRuns: runs(500) },
    );
  });
});
