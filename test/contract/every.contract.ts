// The contracts of a store that keeps buckets itself.

import { describeAlgorithmContract } from "./algorithm.contract.ts";
import { describeCalendarContract } from "./calendar.contract.ts";
import { describeCounterContract } from "./counter.contract.ts";
import { describeHoldsContract } from "./holds.contract.ts";
import { describeStoreContract, ONE_LIMIT } from "./store.contract.ts";
import type { HarnessFactory } from "./store-harness.ts";

/** All of them: the store is what others are compared with, or has arithmetic of its own. */
export function describeEveryContract(name: string, make: HarnessFactory): void {
  describeStoreContract(name, make);
  describeHoldsContract(name, make);
  describeAlgorithmContract(name, make);
  describeCalendarContract(name, make);
  describeCounterContract(name, make);
}

/** Without what differs between algorithms: test/property/agreement.ts compares the store, algorithm by algorithm, with one that has run all. */
export function describeComparedContract(name: string, make: HarnessFactory): void {
  describeStoreContract(name, make, ONE_LIMIT);
  describeHoldsContract(name, make);
  describeCalendarContract(name, make);
  describeCounterContract(name, make);
}
