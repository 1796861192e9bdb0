// The memory store keeps the contracts of stores and of algorithms.

import { describeAlgorithmContract } from "./algorithm.contract.ts";
import { describeCalendarContract } from "./calendar.contract.ts";
import { describeCounterContract } from "./counter.contract.ts";
import { describeHoldsContract } from "./holds.contract.ts";
import { memoryHarness } from "./memory-harness.ts";
import { describeStoreContract } from "./store.contract.ts";

describeStoreContract("memory store", () => memoryHarness());
describeHoldsContract("memory store", () => memoryHarness());
describeAlgorithmContract("memory store", () => memoryHarness());
describeCalendarContract("memory store", () => memoryHarness());
describeCounterContract("memory store", () => memoryHarness());
