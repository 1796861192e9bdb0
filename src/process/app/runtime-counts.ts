// Counts the limits at run time of a process, for its pages. There may be very many, so they are read in turns, and only after a change.

import { type LongWork, runInTurns } from "../../engine/base/long-work.ts";
import { readValue } from "../../engine/runtime/runtime-limit.ts";
import type { RuntimeTable } from "../../engine/runtime/runtime-table.ts";
import type { LimitCounts } from "../../operate/http/limit-pages.ts";

interface ReadLimits {
  /** The end of each by its kind, in microseconds of the store's clock; infinite without one. */
  readonly ends: ReadonlyMap<string, readonly number[]>;
  readonly changedUs: number | undefined;
}

export class RuntimeCounts {
  readonly #table: RuntimeTable;
  #read: Promise<ReadLimits> | undefined;
  #readChanges = 0;

  constructor(table: RuntimeTable) {
    this.#table = table;
  }

  /** What is in force at `nowUs`, in microseconds of the store's clock. */
  async at(nowUs: number): Promise<LimitCounts> {
    const { changes } = this.#table;
    if (this.#read === undefined || changes !== this.#readChanges) this.#read = runInTurns(readSteps(this.#table));
    this.#readChanges = changes;
    const { ends, changedUs } = await this.#read;
    const counts = [...ends].map(([kind, untils]) => [kind, untils.filter((us) => us > nowUs).length] as const);
    return {
      inForce: Object.fromEntries(counts.filter(([kind, count]) => kind !== "none" && count > 0)),
      changedUs,
      changes,
    };
  }
}

function* readSteps(table: RuntimeTable): LongWork<ReadLimits> {
  for (;;) {
    const { generation } = table;
    const ends = new Map<string, number[]>();
    let changedUs: number | undefined;
    for (const place of table.places()) {
      // Places change with the generation: all are read again.
      if (table.generation !== generation) break;
      if (table.isCurrent(place)) {
        changedUs = Math.max(changedUs ?? 0, table.atUs(place));
        const { change, untilUs } = readValue(table.valueAt(place)) ?? NONE;
        const ofKind = ends.get(change.kind) ?? [];
        ends.set(change.kind, ofKind);
        ofKind.push(untilUs === 0 ? Number.POSITIVE_INFINITY : untilUs);
      }
      yield;
    }
    if (table.generation === generation) return { ends, changedUs };
  }
}

const NONE = { change: { kind: "none" }, untilUs: 0 } as const;
