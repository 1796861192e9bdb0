// Metrics of holds that are kept in memory.

import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { describeHoldMetrics } from "./hold-metrics.ts";

describeHoldMetrics(() => ({ open: (clock) => new MemoryStore({ clock }), keepsHolds: true }));
