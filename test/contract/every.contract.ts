// All contracts of a store that keeps buckets itself.

import { describeAlgorithmContract } from "./algorithm.contract.ts";
import { describeCalendarContract } from "./calendar.contract.ts";
import { describeCounterContract } from "./counter.contract.ts";
import { describeHoldsContract } from "./holds.contract.ts";
import { describeStoreContract } from "./store.contract.ts";
import type { HarnessFactory } from "./store-harness.ts";

export function describeEveryContract(name: string, make: HarnessFactory): void {
  describeStoreContract(name, make);
  describeHoldsContract(name, make);
  describeAlgorithmContract(name, make);
  describeCalendarContract(name, make);
  describeCounterContract(name, make);
}
