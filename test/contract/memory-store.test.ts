// The memory store keeps the contracts of stores and of algorithms.

import { describeEveryContract } from "./every.contract.ts";
import { memoryHarness } from "./memory-harness.ts";

describeEveryContract("memory store", () => memoryHarness());
