// The scopes that are explored: which world, with how many callers and faults, to which depth.

import { vi } from "vitest";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { callsWorlds, stubTimers } from "./calls-world.ts";
import { type Change, codeOf, type Load } from "./code.ts";
import { type Explored, explore, type World } from "./explorer.ts";
import { holdsWorlds } from "./holds-world.ts";
import { leasesWorlds } from "./leases-world.ts";
import { limitsWorlds } from "./limits-world.ts";
import { membersWorlds } from "./members-world.ts";

// The real tables are large, and thousands are made.
const SMALLER: readonly Change[] = [
  { file: "engine/runtime/runtime-table.ts", text: "const BITS = 1 << 20;", by: "const BITS = 1 << 5;" },
];

export interface Scope {
  readonly name: string;
  readonly depth: number;
  readonly worlds: (load: Load) => Promise<() => World>;
}

const { tokenBucket, fixedWindow } = Algorithm;
const one = { processes: 1, burst: 9, calls: 4, reloads: 0, algorithm: tokenBucket } as const;
export const SCOPES = {
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
  reloads: {
    name: "a lease of one process whose rules are reloaded",
    depth: 7,
    worlds: (load) => leasesWorlds(load, { ...one, isBusy: true, faults: 0, reloads: 1 }),
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
  calls: {
    name: "calls in batches that are late, lost or not run, and give back",
    depth: 7,
    worlds: (load) =>
      callsWorlds(load, {
        burst: 6,
        used: 2,
        costs: [2],
        calls: 3,
        faults: 1,
        others: 0,
        isBusy: false,
        deadlineMs: 400,
      }),
  },
  denials: {
    name: "calls of a process that remembers refusals, while another one pays or refunds",
    depth: 6,
    worlds: (load) =>
      callsWorlds(load, {
        burst: 2,
        used: 1,
        costs: [1, 2],
        calls: 2,
        faults: 0,
        others: 1,
        isBusy: true,
        deadlineMs: 700,
      }),
  },
  members: {
    name: "what two processes and one that joins know of each other, two answers or the register's data are lost, or one dies or leaves",
    depth: 6,
    worlds: (load) => membersWorlds(load, { processes: 2, joining: 1, faults: 2 }),
  },
  holds: {
    name: "holds of two callers who pay, settle and give back in any order, while holds end",
    depth: 5,
    worlds: (load) => holdsWorlds(load, { callers: 2, payments: 3, algorithm: fixedWindow }),
  },
  tokenHolds: {
    name: "holds of a token bucket",
    depth: 5,
    worlds: (load) => holdsWorlds(load, { callers: 2, payments: 3, algorithm: tokenBucket }),
  },
  limits: {
    name: "limits at run time of two processes, two changes, one poll or what the store has is lost, or a process restarts",
    depth: 5,
    worlds: (load) => limitsWorlds(load, { callers: 1, changes: 2, faults: 1 }),
  },
} satisfies Record<string, Scope>;

/** Explores the code with these changes. Timers of stores don't run: they are events of the worlds. */
export async function explored({ worlds, depth }: Scope, changes: readonly Change[] = []): Promise<Explored> {
  const begin = await worlds(codeOf([...SMALLER, ...changes]));
  const timers = vi
    .spyOn(globalThis, "setInterval")
    .mockReturnValue({ unref: () => undefined } as unknown as NodeJS.Timeout);
  const stubbed = stubTimers();
  try {
    return explore(begin, depth);
  } finally {
    stubbed.restore();
    timers.mockRestore();
  }
}
