// Limits at run time of the memory store: the table of the process is all there is.

import type { Clock } from "../../base/clock.ts";
import type { RuntimeWrite, RuntimeWritten } from "../../engine/runtime/runtime-replica.ts";
import type { RuntimeTable } from "../../engine/runtime/runtime-table.ts";
import type { RuntimeStore } from "../runtime-store.ts";

/** The store, which has always what the table has. */
export function memoryRuntimeStore(table: RuntimeTable, clock: Clock, limitsMax: number): RuntimeStore {
  const head = () => ({ version: table.changes, digest: table.digest });
  const write = ({ expectedUs = 0, ...kept }: RuntimeWrite): RuntimeWritten => {
    const known = table.get(kept.key);
    if ((known?.atUs ?? 0) !== expectedUs) return { outcome: "conflict", kept: known };
    if (known === undefined && table.size >= limitsMax) return { outcome: "full" };
    if (kept.value !== "") table.put(kept);
    else if (known !== undefined) table.delete(known);
    return { outcome: "written" };
  };
  return {
    nowUs: () => clock.nowUs(),
    head: async () => head(),
    changes: async (_, upTo) => ({ limits: [], upTo }),
    all: async () => ({ limits: [], next: undefined }),
    write: async (changes) => ({ written: changes.map(write), head: head() }),
    repair: async () => undefined,
  };
}
