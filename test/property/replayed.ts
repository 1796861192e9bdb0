// Histories that a property failed on once. They run first, before any that is generated.

import type { History } from "./histories.ts";

export const REPLAYED_HISTORIES: readonly History[] = [];
