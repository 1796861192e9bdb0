// The protocols between processes, callers and stores, tried in every order of events at a small scope. EXPLORE_DEPTH adds so many events to
// every scope (docs/proof.md).

import { describe, expect, test } from "vitest";
import { explored, SCOPES, type Scope } from "./scopes.ts";

const MORE = Number(process.env.EXPLORE_DEPTH ?? 0);

// Promise(hot): Leases of two processes grant nothing unpaid, late, or beyond a quarter of the burst, in every order of six events.
// Promise(hot): A process grants, holds or gives back all that its leases have paid, in every order of seven events.
// Promise(hot): Processes that know each other by reports hand out at most the whole together, in every order of six events.
// Promise(outages): A call is answered once, and pays what it was granted and nothing else, in every order of seven events.
// Promise(answers): A refusal from memory was right within the last second, in every order of six events.
// Promise(holds): A hold is paid once: what was settled, or held until it ends or comes back, in every order of five events.
// Promise(operators): Limits at run time never get older, and become equal everywhere, in every order of five events.
describe("at this scope nothing goes wrong in any order of events", () => {
  for (const scope of Object.values<Scope>(SCOPES)) {
    test(scope.name, async () => {
      const { story, worlds: count } = await explored({ ...scope, depth: scope.depth + MORE });
      expect(story).toEqual([]);
      expect(count).toBeGreaterThan(100);
    });
  }
});
