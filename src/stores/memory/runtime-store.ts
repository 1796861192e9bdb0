// Limits at run time of the memory store: the process's table is all there is, and its heap is the history.

import type { Clock } from "../../engine/base/clock.ts";
import { readKey } from "../../engine/runtime/runtime-limit.ts";
import type { RuntimeTable } from "../../engine/runtime/runtime-table.ts";
import type { RuntimeEvent, RuntimeStore, RuntimeWrite, RuntimeWritten } from "../runtime-store.ts";

/** What one process, which shares them with no other, asks of a store. */
export function memoryRuntimeStore(table: RuntimeTable, clock: Clock): Pick<RuntimeStore, "write" | "history"> {
  return {
    async write(changes) {
      const written = changes.map((change) => write(table, change, clock.nowUs()));
      return { head: { epoch: "memory", version: table.changes, count: table.size, atUs: 0 }, written };
    },
    async history(text, countMax) {
      const key = readKey(text);
      const events: RuntimeEvent[] = [];
      for (const place of key === undefined ? [] : table.placesOf(key))
        events.push({ kept: table.kept(place), before: events.at(-1)?.kept.value ?? "" });
      return events.slice(-countMax).reverse();
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
