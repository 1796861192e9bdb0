// Limits at run time of the memory store: the table that all threads share is all there is, and its heap is the history.

import type { Clock } from "../../engine/base/clock.ts";
import { readKey } from "../../engine/runtime/runtime-limit.ts";
import type { RuntimeTable } from "../../engine/runtime/runtime-table.ts";
import type {
  RuntimeEvent,
  RuntimeHead,
  RuntimeProcess,
  RuntimeStore,
  RuntimeWrite,
  RuntimeWritten,
} from "../runtime-store.ts";

/** The store of one process. */
export function memoryRuntimeStore(table: RuntimeTable, clock: Clock): RuntimeStore {
  const head = (): RuntimeHead => ({ epoch: "memory", version: table.changes, count: table.size });
  let own: RuntimeProcess | undefined;
  return {
    nowUs: () => clock.nowUs(),
    head: async () => head(),
    changesAfter: async () => [],
    async *all() {
      // The table has them.
    },
    write: async (changes) => ({ head: head(), written: changes.map((change) => write(table, change, clock.nowUs())) }),
    renew: async () => undefined,
    history: async (key, countMax) => history(table, key, countMax),
    async beat(process) {
      own = process ?? own;
      return own === undefined ? [] : [own];
    },
  };
}

function write(
  table: RuntimeTable,
  { key: text, value, expectedUs, atUs }: RuntimeWrite,
  nowUs: number,
): RuntimeWritten {
  const key = readKey(text);
  return table.exclusively(() => {
    const known = key && table.get(key);
    if (expectedUs !== undefined && (known?.atUs ?? 0) !== expectedUs) return { outcome: "conflict", kept: known };
    const kept = { key: text, value, atUs: atUs ?? Math.max(nowUs, (known?.atUs ?? 0) + 1) };
    const isKept = table.put(kept);
    if (isKept === "full") return { outcome: "full" };
    return isKept === true ? { outcome: "written", kept } : { outcome: "conflict", kept: known };
  });
}

function history(table: RuntimeTable, key: string, countMax: number): readonly RuntimeEvent[] {
  const events: RuntimeEvent[] = [];
  for (const place of table.places()) {
    const kept = table.kept(place);
    if (kept.key === key) events.push({ kept, before: events.at(-1)?.kept.value ?? "" });
  }
  return events.slice(-countMax).reverse();
}
