// Limits at run time of two processes on one store: operators set and unset them, polls are answered late or never, processes restart, and
// the store loses everything, one limit, or its last change. The steps are engine/runtime's; the store does what lua/runtime_limits.lua does.

import type { KeptLimit } from "../../src/engine/runtime/runtime-limit.ts";
import type {
  RuntimeAnswer,
  RuntimeHead,
  RuntimeReplica,
  RuntimeRequest,
  RuntimeWrite,
  RuntimeWritten,
} from "../../src/engine/runtime/runtime-replica.ts";
import type { RuntimeTable } from "../../src/engine/runtime/runtime-table.ts";
import type { Load } from "./code.ts";
import type { World } from "./explorer.ts";
import { stateText } from "./state-text.ts";

type Code = typeof import("../../src/engine/runtime/runtime-limit.ts") &
  typeof import("../../src/engine/runtime/runtime-replica.ts") &
  typeof import("../../src/engine/runtime/runtime-table.ts");

export interface LimitsScope {
  readonly callers: number;
  /** How often operators change something. */
  readonly changes: number;
  /** How often something goes wrong. */
  readonly faults: number;
}

const START_US = Date.UTC(2026, 0, 1) * 1_000;
const MINUTE_US = 60_000_000;
const MARKS = 2 ** 48;
/** Rounds of polls after which all are equal, once nothing goes wrong any more. */
const ROUNDS_MAX = 3;
const REQUESTS_MAX = 50;

/** What makes worlds of that scope. */
export async function limitsWorlds(load: Load, scope: LimitsScope): Promise<() => World> {
  const code: Code = {
    ...(await load<typeof import("../../src/engine/runtime/runtime-limit.ts")>("engine/runtime/runtime-limit.ts")),
    ...(await load<typeof import("../../src/engine/runtime/runtime-replica.ts")>("engine/runtime/runtime-replica.ts")),
    ...(await load<typeof import("../../src/engine/runtime/runtime-table.ts")>("engine/runtime/runtime-table.ts")),
  };
  return () => new LimitsWorld(code, scope);
}

/** The shared store. */
class Store {
  #limits = new Map<string, KeptLimit & { readonly version: number }>();
  head: RuntimeHead = { version: 0, digest: 0 };
  #before = { limits: this.#limits, head: this.head };
  nowUs = START_US;

  answer(request: RuntimeRequest): RuntimeAnswer {
    switch (request.ask) {
      case "head":
        return { is: "head", head: this.head };
      case "changes": {
        const inOrder = [...this.#limits.values()].toSorted((one, other) => one.version - other.version);
        const limits = inOrder.filter(({ version }) => version > request.after && version <= request.upTo);
        return { is: "changes", limits, upTo: request.upTo };
      }
      case "all":
        return { is: "all", limits: [...this.#limits.values()], next: undefined };
      case "write":
        return { is: "written", written: this.write(request.changes) };
      case "repair":
        if (this.head.version === request.head.version && this.head.digest === request.head.digest)
          this.head = { version: Math.max(this.head.version, this.nowUs), digest: request.digest };
        return { is: "done" };
      case "turn":
        return { is: "done" };
    }
  }

  write(changes: readonly RuntimeWrite[]): RuntimeWritten[] {
    this.#before = { limits: new Map(this.#limits), head: this.head };
    return changes.map((change) => this.#write(change));
  }

  #write({ expectedUs, ...kept }: RuntimeWrite): RuntimeWritten {
    const known = this.#limits.get(kept.key);
    const isNewer =
      known === undefined || kept.atUs > known.atUs || (kept.atUs === known.atUs && kept.mark > known.mark);
    if (expectedUs === undefined ? !isNewer : expectedUs !== (known?.atUs ?? 0))
      return { outcome: "conflict", kept: known };
    const version = Math.max(this.head.version + 1, this.nowUs);
    const mark = kept.value === "" ? 0 : kept.mark;
    this.head = { version, digest: (this.head.digest - (known?.mark ?? 0) + mark + MARKS) % MARKS };
    if (kept.value === "") this.#limits.delete(kept.key);
    else this.#limits.set(kept.key, { ...kept, version });
    return { outcome: "written" };
  }

  loseAll(): void {
    this.#limits = new Map();
    this.head = { version: 0, digest: 0 };
  }

  lose(key: string): void {
    this.#limits.delete(key);
  }

  loseLastChange(): void {
    this.#limits = new Map(this.#before.limits);
    this.head = this.#before.head;
  }

  get limits(): readonly KeptLimit[] {
    return [...this.#limits.values()];
  }

  text(): string {
    return stateText([this.#limits, this.head, this.#before, this.nowUs]);
  }
}

interface Process {
  readonly name: string;
  table: RuntimeTable;
  replica: RuntimeReplica;
  /** What is on its way to the store, or back. The next poll begins when one ends. */
  asks: RuntimeRequest | undefined;
  hears: RuntimeAnswer | undefined;
}

class LimitsWorld implements World {
  readonly #code: Code;
  readonly #store = new Store();
  readonly #processes: readonly Process[];
  readonly #keys: readonly string[];
  #changesLeft: number;
  #faultsLeft: number;
  /** The newest that anybody was told is in force, by caller. */
  readonly #newest = new Map<string, KeptLimit>();
  #wrong: string | undefined;

  constructor(code: Code, { callers, changes, faults }: LimitsScope) {
    this.#code = code;
    this.#keys = ["ann", "bob", "cleo"]
      .slice(0, callers)
      .map((who) => code.keyText({ domain: "d", entries: [["who", who]] }));
    this.#changesLeft = changes;
    this.#faultsLeft = faults;
    this.#processes = ["A", "B"].map((name) => ({ name, ...this.#started([]) }));
  }

  choices(): readonly string[] {
    const choices: string[] = [];
    for (const { name, asks, hears } of this.#processes) {
      if (asks !== undefined) choices.push(`the store answers ${name}`);
      if (hears !== undefined) choices.push(`${name} hears it`);
      for (const [i] of this.#changesLeft > 0 ? this.#keys.entries() : [])
        choices.push(`${name} blocks ${i}`, `${name} unsets ${i}`);
      if (this.#faultsLeft === 0) continue;
      choices.push(`${name}'s poll is lost`, `${name} restarts with its file`, `${name} restarts without a file`);
    }
    if (this.#faultsLeft === 0) return choices;
    choices.push("the store loses everything", "the store loses its last change");
    for (const [i] of this.#keys.entries()) choices.push(`the store loses ${i}`);
    return choices;
  }

  choose(choice: string): void {
    const process = this.#processes.find(({ name }) => choice.startsWith(name) || choice.endsWith(` ${name}`));
    const [what = "", which = ""] = choice.split(" ").slice(-2);
    const key = this.#keys[Number(which)] ?? "";
    if (choice.startsWith("the store loses")) this.#lose(choice, key);
    else if (process === undefined) throw new Error(`expected a process in ${choice}`);
    else if (what === "blocks" || what === "unsets") this.#change(process, what === "blocks" ? "block" : "none", key);
    else if (choice.includes("restarts")) this.#restart(process, choice.endsWith("with its file"));
    else this.#pollOn(process, choice);
  }

  broken(): string | undefined {
    if (this.#wrong !== undefined) return this.#wrong;
    const newest = new Map<string, KeptLimit>();
    const all = [
      ...this.#store.limits,
      ...this.#processes.flatMap(({ table }) => [...table.entries()].map(([, row]) => row)),
    ];
    for (const kept of all) this.#keepNewer(newest, kept);
    for (let round = 0; round < ROUNDS_MAX; round++) for (const process of this.#processes) this.#pollToEnd(process);
    for (const { name, table } of this.#processes) {
      for (const [key, kept] of newest) {
        const row = table.get(key);
        if (row?.atUs !== kept.atUs || row.mark !== kept.mark)
          return `when nothing goes wrong any more, ${name} has ${said(row)} of ${key}, and the newest is ${said(kept)}`;
      }
      if (table.size !== newest.size) return `${name} has ${table.size} limits, and there are ${newest.size}`;
      if (table.digest !== this.#store.head.digest) return `${name}'s sum isn't the store's`;
    }
    return undefined;
  }

  fingerprint(): string {
    const left = [this.#changesLeft, this.#faultsLeft];
    return `${this.#store.text()}${stateText([this.#processes, left, this.#newest])}`;
  }

  #started(kept: readonly KeptLimit[]) {
    const table = new this.#code.RuntimeTable();
    for (const each of kept) table.put(each);
    const replica = new this.#code.RuntimeReplica(table, this.#store.nowUs);
    return { table, replica, asks: replica.poll(this.#store.nowUs) as RuntimeRequest | undefined, hears: undefined };
  }

  #restart(process: Process, hasFile: boolean): void {
    this.#faultsLeft--;
    const file = [...process.table.entries()].map(([, { key, value, atUs, mark }]) => ({ key, value, atUs, mark }));
    Object.assign(process, this.#started(hasFile ? file : []));
  }

  #lose(choice: string, key: string): void {
    this.#faultsLeft--;
    this.#store.nowUs += MINUTE_US;
    if (choice.endsWith("everything")) this.#store.loseAll();
    else if (choice.endsWith("change")) this.#store.loseLastChange();
    else this.#store.lose(key);
  }

  /** As process/app/runtime-limits.ts writes what an operator asks for. */
  #change({ name, table }: Process, kind: "block" | "none", key: string): void {
    this.#changesLeft--;
    this.#store.nowUs += MINUTE_US;
    const expectedUs = table.get(key)?.atUs ?? 0;
    const change = kind === "block" ? { kind, shadow: false } : { kind };
    const value = this.#code.valueText({ change, untilUs: 0, note: "", who: name });
    const kept = this.#code.keep(key, value, Math.max(this.#store.nowUs, expectedUs + 1));
    const [outcome] = this.#store.write([{ ...kept, expectedUs }]);
    if (outcome?.outcome === "written") this.#keepNewer(this.#newest, kept);
    const now = outcome?.outcome === "conflict" ? outcome.kept : kept;
    if (now !== undefined) this.#put(name, table, () => table.put(now));
  }

  #pollOn(process: Process, choice: string): void {
    const { name, asks, hears, replica } = process;
    if (choice.endsWith("lost")) {
      this.#faultsLeft--;
      process.hears = undefined;
      process.asks = replica.poll(this.#store.nowUs);
    } else if (choice.startsWith("the store answers")) {
      process.hears = this.#store.answer(asks as RuntimeRequest);
      process.asks = undefined;
    } else {
      process.hears = undefined;
      this.#put(name, process.table, () => {
        process.asks = replica.step(hears as RuntimeAnswer) ?? replica.poll(this.#store.nowUs);
      });
    }
  }

  #pollToEnd(process: Process): void {
    process.hears = undefined;
    process.asks = process.replica.poll(this.#store.nowUs);
    for (let i = 0; process.asks !== undefined; i++) {
      if (i > REQUESTS_MAX) throw new Error(`${process.name}'s poll does not end`);
      process.asks = process.replica.step(this.#store.answer(process.asks));
    }
  }

  /** Runs what may change the table; no row may become older. */
  #put(name: string, table: RuntimeTable, run: () => unknown): void {
    const before = new Map([...table.entries()].map(([, row]) => [row.key, row]));
    run();
    for (const [key, row] of before) {
      const now = table.get(key);
      if (now === undefined || this.#code.isNewer(row, now))
        this.#wrong = `${name} had ${said(row)} of ${key}, and has ${said(now)} now`;
    }
  }

  #keepNewer(newest: Map<string, KeptLimit>, kept: KeptLimit): void {
    const known = newest.get(kept.key);
    if (known === undefined || this.#code.isNewer(kept, known)) newest.set(kept.key, kept);
  }
}

function said(kept: KeptLimit | undefined): string {
  return kept === undefined ? "nothing" : `${kept.value} at minute ${(kept.atUs - START_US) / MINUTE_US}`;
}
