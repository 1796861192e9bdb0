// Guarantees in one process: each caller has a share of what all share, and may borrow what others leave.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Clock } from "../../src/base/clock.ts";
import type { Store } from "../../src/engine/domain/store.ts";
import { DenialMemory } from "../../src/stores/denials/denial-memory.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { expectModel, nothingSeen, type Seen, scenarios } from "./guarantees.ts";

const START_US = Date.UTC(2026, 0, 1) * 1_000;

/** A process that remembers refusals in front of what it shares with others. */
const remembering = (store: Store, clock: Clock) => new DenialMemory(store, { clock, entriesMax: 512 });

describe("guarantees", () => {
  // Promise(sharing): A call within its caller's guarantee is never refused by the shared limit, for as many callers as `check` counts.
  // Promise(sharing): What callers leave of their guarantees others may borrow, down to the kept part.
  test.each([
    ["a store in memory", (store: Store) => store],
    ["behind what a process remembers of refusals", remembering],
  ] as const)("every call passes as by an exact model, and waits as long: %s", async (_, around) => {
    const seen: Seen = nothingSeen();
    await fc.assert(
      fc.asyncProperty(scenarios(20), async (scenario) => {
        const ownClock = new ManualClock();
        const store = new MemoryStore({ clock: ownClock, bucketsMax: 512 });
        const stores = [(clock: Clock) => around(store, clock)];
        await expectModel(scenario, { stores, setUs: (nowUs) => ownClock.setUs(nowUs) }, START_US, seen);
      }),
      { numRuns: runs(300) },
    );
    for (const [way, count] of Object.entries(seen)) expect(count, way).toBeGreaterThan(runs(100));
  });
});
