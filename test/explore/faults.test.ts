// The same protocols with one fault each, which must be found, with the shortest story of how it shows (docs/proof.md).

import { describe, expect, test } from "vitest";
import type { Change } from "./code.ts";
import { explored, SCOPES, type Scope } from "./scopes.ts";

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
const hold = (what: string, text: string, by: string, scope: Scope = SCOPES.holds): Fault => ({
  what,
  file: "engine/algorithms/holds.ts",
  text,
  by,
  scope,
});

const calls = (what: string, file: string, text: string, by: string): Fault => ({
  what,
  file: `stores/batching/${file}.ts`,
  text,
  by,
  scope: SCOPES.calls,
});
const denial = (what: string, text: string, by: string): Fault => ({
  what,
  file: "stores/denials/denial-memory.ts",
  text,
  by,
  scope: SCOPES.denials,
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
    SCOPES.tokenHolds,
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
  calls(
    "a payment that is answered too late is kept",
    "answers",
    "        this.#giveBackPaid(batch, batched, reader);\n",
    "",
  ),
  calls("a lost batch is taken for one that was not run", "answers", "error.cause, true));", "error.cause, false));"),
  calls("an answer that comes too late is read as the next call's", "answers", "      reader.skip(batched);\n", ""),
  calls(
    "what was not run is not given back again",
    "give-backs",
    "      this.#keep(receipt);\n      this.#timer",
    "      this.#timer",
  ),
  calls("a call can be answered twice", "batch", 'batched.state = "answered";', ""),
  denial("what is given back is still refused", "if (take?.paid) this.forget(take.bucketKey);", ""),
  denial(
    "an older refusal is learned after it",
    "    entry.sequence = this.#sequence;\n    entry.untilUs",
    "    entry.untilUs",
  ),
  lease(
    "what an answer brings after the rules were reloaded is kept",
    "this.#leases.get(lease.bucketKey) !== lease",
    "false",
    SCOPES.reloads,
  ),
  lease(
    "a process that stops gives nothing back",
    "    for (const lease of this.#leases.values()) this.#returnRest(lease);\n    this.#leases.clear",
    "    this.#leases.clear",
  ),
  {
    what: "what was held in an earlier window comes back",
    file: "engine/algorithms/fixed-window.ts",
    text: "if (windowStartUs(limit, paidAtUs, state.shift.us) === state.atUs) windowSteps",
    by: "windowSteps",
    scope: SCOPES.holds,
  },
  {
    what: "an old count is good for ever",
    file: "stores/batching/process-count.ts",
    text: " && nowUs - this.#countedUs <= FRESH_US",
    by: "",
    scope: SCOPES.members,
  },
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
