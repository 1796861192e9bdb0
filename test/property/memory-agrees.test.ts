// Three threads that share a memory store give the answers that one thread gives, whichever of them takes, settles or gives back.

import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { memoryHarness } from "../contract/memory-harness.ts";
import { closedWithTest } from "../support/ends.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { describeAgreement } from "./agreement.ts";
import { replayAtOnce } from "./replay.ts";

// Both forget alike what has expired, which the reference never does.
describeAgreement(
  () => memoryHarness(3),
  (history) => {
    const clock = new ManualClock();
    return replayAtOnce(closedWithTest(new MemoryStore({ clock })), clock, history);
  },
  true,
);
