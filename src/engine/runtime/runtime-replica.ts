// Makes a process's table of limits at run time equal to the store's, and the store's to it: pure steps, from a message
// to the next request. Every limit is the newest change of its caller, so two sides that differ are made equal by
// giving each what is newer. The store has a version, which grows with every change, and the sum of all marks. A
// process takes what changed since the version that it knows; if the sums differ after that (after a flush, an
// eviction, a failover to older data), it reads all and writes back what the store lacks. So what is lost in the store
// never lifts a block, and an unset, which is kept as a change, is never undone.

import { isPast, type KeptLimit, RUNTIME_REMEMBERED_US } from "./runtime-limit.ts";
import type { RuntimeRow, RuntimeTable } from "./runtime-table.ts";

/** The state of the store without its limits. */
export interface RuntimeHead {
  /**
   * Greater after every change, also of a store that has lost everything: it follows the store's clock. 0: nothing was
   * ever kept.
   */
  readonly version: number;
  /** The sum of the marks of all limits. */
  readonly digest: number;
}

/** A change to write. An empty value drops what is there. */
export interface RuntimeWrite extends KeptLimit {
  /**
   * Writes only over a limit with this `atUs`, 0: over none. Undefined: over anything older, however full the store is.
   */
  readonly expectedUs: number | undefined;
}

/** The outcome of a change: written, or something else was there, or no room. */
export type RuntimeWritten =
  | { readonly outcome: "written" | "full" }
  | { readonly outcome: "conflict"; readonly kept: KeptLimit | undefined };

/** What is asked of the store; `turn`: only that other work be done first. */
export type RuntimeRequest =
  | { readonly ask: "head" | "turn" }
  | { readonly ask: "changes"; readonly after: number; readonly upTo: number }
  | { readonly ask: "all"; readonly from: string }
  | { readonly ask: "write"; readonly changes: readonly RuntimeWrite[] }
  /** Makes `digest` the store's, unless its head has changed. */
  | { readonly ask: "repair"; readonly head: RuntimeHead; readonly digest: number };

export type RuntimeAnswer =
  | { readonly is: "head"; readonly head: RuntimeHead }
  /** `upTo`: the version up to which these are all. */
  | { readonly is: "changes"; readonly limits: readonly KeptLimit[]; readonly upTo: number }
  | { readonly is: "all"; readonly limits: readonly KeptLimit[]; readonly next: string | undefined }
  | { readonly is: "written"; readonly written: readonly RuntimeWritten[] }
  | { readonly is: "done" };

/** Most changes of one write: half a millisecond in Redis. */
export const RUNTIME_WRITES_MAX = 25;
/** Rows looked at in one turn. */
const PER_TURN = 500;
/** Heads of one poll that differ from the table: others write meanwhile. */
const HEADS_MAX = 8;
/** How often what need not be remembered is looked for. */
const FORGET_EVERY_US = 3_600_000_000;
/** A store forgets later than processes do, so that none writes back what another has dropped. */
const FORGOTTEN_US = RUNTIME_REMEMBERED_US + 86_400_000_000;

/** A process's side. Requests of one poll follow each other: each waits for the answer to the one before. */
export class RuntimeReplica {
  readonly #table: RuntimeTable;
  /** Up to which version the table has all changes, as far as the store tells; 0: none. */
  #known = 0;
  #head: RuntimeHead = { version: 0, digest: 0 };
  #heads = 0;
  /** The version at which the sums differed; -1: none. */
  #suspect = -1;
  /** While all are read: those that the store has, too. */
  #same = new Set<RuntimeRow>();
  /** Rows to look at, from `#at` on: those that the store lacks, or all, to find what can be forgotten. */
  #walk: readonly RuntimeRow[] = [];
  #at = 0;
  #walksFor: "write back" | "forget" = "write back";
  #hasChanged = false;
  #sent: readonly RuntimeWrite[] = [];
  #nowUs = 0;
  #forgotUs: number;
  /** The store's version when table and store were last found equal; undefined: never. */
  equalAt: number | undefined;

  constructor(table: RuntimeTable, nowUs: number) {
    this.#table = table;
    this.#forgotUs = nowUs;
  }

  /** Begins a poll, at `nowUs` of the store's clock, whatever became of the one before. */
  poll(nowUs: number): RuntimeRequest {
    this.#nowUs = nowUs;
    this.#heads = 0;
    return { ask: "head" };
  }

  /** Takes an answer; returns the next request, undefined at the end of the poll. */
  step(answer: RuntimeAnswer): RuntimeRequest | undefined {
    switch (answer.is) {
      case "head":
        return this.#onHead(answer.head);
      case "changes":
        for (const kept of answer.limits) this.#table.put(kept);
        this.#known = answer.upTo;
        return this.#onHead(this.#head);
      case "all":
        return this.#onPart(answer.limits, answer.next);
      case "written":
        this.#onWritten(answer.written);
        return this.#walkOn();
      case "done":
        return this.#at < this.#walk.length ? this.#walkOn() : { ask: "head" };
    }
  }

  #onHead(head: RuntimeHead): RuntimeRequest | undefined {
    this.#head = head;
    if (head.digest === this.#table.digest) {
      this.#known = head.version;
      this.equalAt = head.version;
      this.#suspect = -1;
      return this.#forget();
    }
    if (this.#known > 0 && head.version > this.#known)
      return { ask: "changes", after: this.#known, upTo: head.version };
    if (++this.#heads > HEADS_MAX) return undefined;
    // A change may have come between, so the same head is asked for twice.
    if (this.#known > 0 && this.#suspect !== head.version) {
      this.#suspect = head.version;
      return { ask: "head" };
    }
    this.#same = new Set();
    return { ask: "all", from: "" };
  }

  #onPart(limits: readonly KeptLimit[], next: string | undefined): RuntimeRequest | undefined {
    for (const kept of limits) {
      const row = this.#table.put(kept);
      if (row.atUs === kept.atUs && row.mark === kept.mark) this.#same.add(row);
    }
    if (next !== undefined) return { ask: "all", from: next };
    this.#known = this.#head.version;
    this.#begin("write back", (row) => !this.#same.has(row));
    this.#same = new Set();
    return this.#walkOn();
  }

  #forget(): RuntimeRequest | undefined {
    if (this.#nowUs - this.#forgotUs < FORGET_EVERY_US) return undefined;
    this.#forgotUs = this.#nowUs;
    this.#begin("forget", () => true);
    return this.#walkOn();
  }

  #begin(walksFor: "write back" | "forget", wants: (row: RuntimeRow) => boolean): void {
    const rows: RuntimeRow[] = [];
    for (const [, row] of this.#table.entries()) if (wants(row)) rows.push(row);
    this.#walk = rows;
    this.#at = 0;
    this.#walksFor = walksFor;
    this.#hasChanged = false;
  }

  #walkOn(): RuntimeRequest | undefined {
    const changes: RuntimeWrite[] = [];
    const end = Math.min(this.#walk.length, this.#at + PER_TURN);
    while (this.#at < end && changes.length < RUNTIME_WRITES_MAX) {
      const change = this.#changeOf(this.#walk[this.#at++] as RuntimeRow);
      if (change !== undefined) changes.push(change);
    }
    this.#sent = changes;
    if (changes.length > 0) return { ask: "write", changes };
    if (this.#at < this.#walk.length) return { ask: "turn" };
    this.#walk = [];
    this.#at = 0;
    if (this.#walksFor === "forget" && !this.#hasChanged) return undefined;
    // The store has all of the table and nothing else, so its sum is wrong: somebody has taken a limit out of it.
    const { digest } = this.#table;
    if (!this.#hasChanged && digest !== this.#head.digest) return { ask: "repair", head: this.#head, digest };
    return { ask: "head" };
  }

  /** What to write of a row. Drops one that need not be remembered and that the store has no more. */
  #changeOf(row: RuntimeRow): RuntimeWrite | undefined {
    const { key, value, atUs, mark, limit } = row;
    const pastUs = this.#walksFor === "forget" ? FORGOTTEN_US : RUNTIME_REMEMBERED_US;
    const isForgotten = limit !== undefined && isPast(limit, atUs, this.#nowUs, pastUs);
    this.#hasChanged ||= this.#walksFor === "write back" || isForgotten;
    if (this.#walksFor === "forget") return isForgotten ? { key, value: "", atUs, mark, expectedUs: atUs } : undefined;
    if (!isForgotten) return { key, value, atUs, mark, expectedUs: undefined };
    if (this.#table.get(key) === row) this.#table.delete(row);
    return undefined;
  }

  #onWritten(written: readonly RuntimeWritten[]): void {
    for (const [i, each] of written.entries()) {
      if (each.outcome === "conflict" && each.kept !== undefined) this.#table.put(each.kept);
      if (each.outcome !== "written" || this.#walksFor !== "forget") continue;
      const { key, atUs } = this.#sent[i] as RuntimeWrite;
      const row = this.#table.get(key);
      if (row?.atUs === atUs) this.#table.delete(row);
    }
  }
}
