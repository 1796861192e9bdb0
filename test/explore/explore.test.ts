// The protocols between processes, callers and stores, tried in every order of events at a small scope; and the same with one fault each,
// which must be found, with the shortest story of how it shows. EXPLORE_DEPTH adds so many events to every scope (docs/proof.md).

import { describe, expect, test, vi } from "vitest";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { type Change, codeOf, type Load } from "./code.ts";
import { type Explored, explore, type World } from "./explorer.ts";
import { holdsWorlds } from "./holds-world.ts";
import { leasesWorlds } from "./leases-world.ts";
import { limitsWorlds } from "./limits-world.ts";
import { membersWorlds } from "./members-world.ts";

const MORE = Number(process.env.EXPLORE_DEPTH ?? 0);

// The real tables are large, and thousands are made.
const SMALLER: readonly Change[] = [
  { file: "engine/runtime/runtime-table.ts", text: "const BITS = 1 << 20;", by: "const BITS = 1 << 5;" },
];

interface Scope {
  readonly name: string;
  readonly depth: number;
  readonly worlds: (load: Load) => Promise<() => World>;
}

const { tokenBucket, fixedWindow } = Algorithm;
const one = { processes: 1, burst: 8, calls: 4, algorithm: tokenBucket } as const;
const SCOPES = {
  asking: {
    name: "leases that a process asks for, one message late or lost",
    depth: 7,
    worlds: (load) => leasesWorlds(load, { ...one, isBusy: false, faults: 1 }),
  },
  lease: {
    name: "a lease of one process, four calls, one message late or lost",
    depth: 7,
    worlds: (load) => leasesWorlds(load, { ...one, isBusy: true, faults: 1 }),
  },
  leases: {
    name: "leases of two processes, four calls, one message late or lost, or a process dies",
    depth: 6,
    worlds: (load) => leasesWorlds(load, { ...one, processes: 2, isBusy: true, faults: 1 }),
  },
  windows: {
    name: "a lease on a fixed window that ends meanwhile",
    depth: 7,
    worlds: (load) => leasesWorlds(load, { ...one, algorithm: fixedWindow, isBusy: true, faults: 0 }),
  },
  members: {
    name: "what two processes and one that joins know of each other, two answers or the register's data are lost, or one dies or leaves",
    depth: 6,
    worlds: (load) => membersWorlds(load, { processes: 2, joining: 1, faults: 2 }),
  },
  holds: {
    name: "holds of two callers who pay, settle and give back in any order, while holds end",
    depth: 5,
    worlds: (load) => holdsWorlds(load, { callers: 2, payments: 3 }),
  },
  limits: {
    name: "limits at run time of two processes, two changes, one poll or what the store has is lost, or a process restarts",
    depth: 5,
    worlds: (load) => limitsWorlds(load, { callers: 1, changes: 2, faults: 1 }),
  },
} satisfies Record<string, Scope>;

/** Explores the code with these changes. Timers of stores don't run: they are events of the worlds. */
async function explored({ worlds, depth }: Scope, changes: readonly Change[] = []): Promise<Explored> {
  const begin = await worlds(codeOf([...SMALLER, ...changes]));
  const timers = vi
    .spyOn(globalThis, "setInterval")
    .mockReturnValue({ unref: () => undefined } as unknown as NodeJS.Timeout);
  try {
    return explore(begin, depth);
  } finally {
    timers.mockRestore();
  }
}

// Promise(hot): Leases of two processes grant nothing unpaid, late, or beyond a quarter of the burst, in every order of events explored.
// Promise(hot): Processes that know each other by reports hand out at most the whole together, in every order of events explored.
// Promise(holds): A hold is paid once: what was settled, or what is held until it ends or comes back, in every order of events explored.
// Promise(operators): Limits at run time never get older, and become equal everywhere, in every order of events explored.
describe("at this scope nothing goes wrong in any order of events", () => {
  for (const scope of Object.values<Scope>(SCOPES)) {
    test(scope.name, async () => {
      const { story, worlds: count } = await explored({ ...scope, depth: scope.depth + MORE });
      expect(story).toEqual([]);
      expect(count).toBeGreaterThan(100);
    });
  }
});

interface Fault extends Change {
  readonly what: string;
  readonly scope: Scope;
}

const lease = (what: string, text: string, by: string, scope: Scope = SCOPES.lease): Fault => ({
  what,
  file: "stores/sync/lease.ts",
  text,
  by,
  scope,
});
const limits = (what: string, file: string, text: string, by: string): Fault => ({
  what,
  file: `engine/runtime/${file}.ts`,
  text,
  by,
  scope: SCOPES.limits,
});
const hold = (what: string, text: string, by: string, file = "holds"): Fault => ({
  what,
  file: `engine/algorithms/${file}.ts`,
  text,
  by,
  scope: SCOPES.holds,
});

const FAULTS: readonly Fault[] = [
  lease(
    "what is left of a lease is given back, and kept",
    "lease.paidAtUs);\n    lease.tokens = 0;",
    "lease.paidAtUs);",
  ),
  lease(
    "a lease lasts from its answer on",
    "lease.untilUs = sentUs + LEASE_US;",
    "lease.untilUs = this.#clock.nowUs() + LEASE_US;",
    SCOPES.asking,
  ),
  lease("a lease can be spent at its end", "nowUs >= lease.untilUs) {", "nowUs > lease.untilUs) {", SCOPES.asking),
  lease(
    "a lease outlives its window",
    "if (ALGORITHM_TRAITS[lease.limit.algorithm].endsAtOnce)",
    "if (false)",
    SCOPES.windows,
  ),
  lease(
    "each process leases the part of all",
    "BURST_PARTS * Math.max(1, this.#processCount())",
    "BURST_PARTS",
    SCOPES.leases,
  ),
  lease(
    "what the store was paid comes back into a lease",
    "if (lease.tokens + take.cost > lease.size) return false;",
    "",
  ),
  {
    what: "fewer processes are believed at once",
    file: "stores/batching/process-count.ts",
    text: "if (count < this.#count && !mayFall) return;",
    by: "",
    scope: SCOPES.members,
  },
  {
    what: "a new process leases at once",
    file: "stores/batching/process-count.ts",
    text: "const KNOWN_AFTER_US = 2_800 * MICROS_PER_MILLI;",
    by: "const KNOWN_AFTER_US = 0;",
    scope: SCOPES.members,
  },
  hold("a hold can be settled twice", "if (isSettled) return 0;", ""),
  hold("a settled hold gives back what was held", "hold.cost - used, nowUs);", "hold.cost, nowUs);"),
  hold(
    "a late payment is given back after its hold has ended",
    "named !== undefined && nowUs < endsAtUs",
    "named !== undefined",
  ),
  hold(
    "a settlement is forgotten",
    "book.remove(holds, hold);\n  noteSettled(take, book, nowUs);",
    "book.remove(holds, hold);",
  ),
  limits(
    "an older limit takes the place of a newer one",
    "runtime-table",
    "if (known !== undefined && !isNewer(kept, known)) return known;",
    "",
  ),
  limits("what the store lacks is not written back", "runtime-replica", "(row) => !this.#same.has(row)", "() => false"),
  limits(
    "equal versions are taken for equal limits",
    "runtime-replica",
    "if (head.digest === this.#table.digest) {",
    "if (head.version === this.#known) {",
  ),
  limits(
    "a sum that is wrong stays wrong",
    "runtime-replica",
    "if (!this.#hasChanged && digest !== this.#head.digest) return",
    "if (false) return",
  ),
];

describe("a fault is found", () => {
  for (const { what, scope, ...change } of FAULTS) {
    test(what, async () => {
      const { story } = await explored(scope, [change]);
      expect(story).not.toEqual([]);
      expect(story).toMatchSnapshot();
    });
  }
});
