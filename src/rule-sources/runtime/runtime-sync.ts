// Keeps a process's limits at run time equal to those of its store, and to a file. Each limit is the newest change of its caller, so two
// sides that differ are made equal by giving each what is newer. A change reaches a process by the store's history; if that can't be (after
// a failover to older data, a flush, an eviction), the process reads all, and writes what the store has lost. So what is lost in the store
// never lifts a block, and an unset, which is remembered as a change, is never undone.

import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "../../engine/base/clock.ts";
import type { Log } from "../../engine/base/log.ts";
import { errorMessage } from "../../engine/base/thrown.ts";
import { MICROS_PER_SECOND } from "../../engine/base/units.ts";
import { waitAtMost } from "../../engine/base/wait-at-most.ts";
import { isForgotten, type KeptLimit, readValue, type StoreChange } from "../../engine/runtime/runtime-limit.ts";
import type { RuntimeTable } from "../../engine/runtime/runtime-table.ts";
import type { RegisteredProcess } from "../../stores/process-register.ts";
import {
  RUNTIME_WRITES_MAX,
  type RuntimeHead,
  type RuntimeStore,
  type RuntimeWrite,
} from "../../stores/runtime-store.ts";
import { readLimitsFile, writeLimitsFile } from "./limits-file.ts";

/** How often the store is asked for changes. */
const RUNTIME_POLL_MS = 500;
/** Polls at a start, a second of them, and polls that fail before the log says so, two seconds. */
const START_LOOKS_MAX = 20;
const FAILED_IN_TURN_MAX = 4;
/** Limits that are taken or compared in one turn: some milliseconds. */
const PER_TURN = 200;
/** How often what need not be remembered is looked for. */
const FORGET_EVERY_US = 3_600 * MICROS_PER_SECOND;

const NOTHING: RuntimeHead = { epoch: "", version: 0, atUs: 0, count: 0 };

interface RuntimeSyncOptions {
  readonly table: RuntimeTable;
  /** The store that processes share; undefined: the table is all there is. */
  readonly store: RuntimeStore | undefined;
  /** LIMITS_CACHE; undefined: nothing is kept. */
  readonly file: string | undefined;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn" | "info">;
  /** The process's, `ratelimit-0:12:mfx2k9p4`. */
  readonly name: string;
  /** The calls that this process reports to the others, and what receives their reports. */
  readonly register?:
    | { calls(): readonly number[]; heard(all: readonly RegisteredProcess[], ownId: string): void }
    | undefined;
}

/** Longest wait for leaving the store's register: without it the process is gone a few seconds later. */
const LEAVE_MS_MAX = 250;

/** One process's; of its threads only one has it. */
export class RuntimeSync {
  readonly #options: RuntimeSyncOptions;
  /** Of the process in the store's register. */
  readonly id = randomUUID();
  /** What the store had when this process last was equal to it. */
  #head: RuntimeHead = NOTHING;
  #timer: NodeJS.Timeout | undefined;
  #hasCompared = false;
  #forgotUs = 0;
  #hasClosed = false;
  #failedInTurn = 0;
  /** Limits of the store that the table has no room for. */
  #withoutRoom = 0;
  /** `changes` of the table when it was last compared with the store. */
  #comparedChanges = 0;
  #why = "";
  /** Why the last poll failed; undefined if it did not. */
  trouble: string | undefined;
  /** Polls that failed, and limits that came and can't be read. */
  failures = 0;

  constructor(options: RuntimeSyncOptions) {
    this.#options = options;
  }

  /** Takes what the file has, asks the store, waiting a moment for its connection, and goes on to do so. Never rejects. */
  async start(): Promise<void> {
    const { file, table, log } = this.#options;
    if (file !== undefined) await this.#takeAll(await readLimitsFile(file, log));
    table.savedChanges = table.changes;
    this.#forgotUs = this.#options.clock.nowUs();
    for (let look = 0; look < START_LOOKS_MAX && !(await this.#tryPoll()); look++)
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    this.#goOn();
  }

  /** Ends, and leaves the store's register. */
  async close(): Promise<void> {
    this.#hasClosed = true;
    clearTimeout(this.#timer);
    const leaving = this.#options.store?.leave(this.id).catch(() => undefined);
    if (leaving !== undefined) await waitAtMost(LEAVE_MS_MAX, leaving);
  }

  /** Keeps a longer report of the process in the store's register, unless it has left that. Rejects if the store does not answer. */
  async publish(report: string): Promise<void> {
    if (!this.#hasClosed) await this.#options.store?.publish(this.id, report);
  }

  /** Makes both sides equal, now. Rejects if the store does not answer, or if the file can't be written. */
  async poll(): Promise<void> {
    const { store, clock, table, name, register } = this.#options;
    if (store !== undefined) {
      const { written } = table;
      await this.#catchUp(store, await store.head(), written);
      table.clockOffsetUs = store.nowUs() - clock.nowUs();
      // A process that lacks some limits confirms nothing.
      const { epoch, version } = this.#withoutRoom > 0 ? NOTHING : this.#head;
      // A beat after `close` would bring the process back into the register.
      if (!this.#hasClosed) {
        const { all } = await store.beat({ id: this.id, name, epoch, version, calls: register?.calls() ?? [] });
        register?.heard(all, this.id);
      }
    }
    await this.#save();
    await this.#forget();
    if (this.#withoutRoom > 0)
      throw new Error(
        `there was no room for ${this.#withoutRoom} of the store's limits; RUNTIME_LIMITS_MAX is too low`,
      );
  }

  async #pollAndGoOn(): Promise<void> {
    if (await this.#tryPoll()) {
      if (this.trouble !== undefined) this.#options.log.info({}, "limits at run time are up to date again");
      this.trouble = undefined;
      this.#failedInTurn = 0;
    } else {
      this.failures++;
      this.#failedInTurn++;
      // A store that fails for a moment is no trouble, and one that is down is logged elsewhere.
      if (this.#failedInTurn === FAILED_IN_TURN_MAX) {
        this.trouble = this.#why;
        const reason = this.#why;
        this.#options.log.warn({ reason }, "can't update limits at run time; those in force stay");
      }
    }
    this.#goOn();
  }

  #goOn(): void {
    if (!this.#hasClosed) this.#timer = setTimeout(() => void this.#pollAndGoOn(), RUNTIME_POLL_MS).unref();
  }

  /** Polls; false if that failed. */
  async #tryPoll(): Promise<boolean> {
    try {
      await this.poll();
      return true;
    } catch (cause) {
      this.#why = errorMessage(cause);
      return false;
    }
  }

  /** `written`: what this process had written when it asked for the head. */
  async #catchUp(store: RuntimeStore, head: RuntimeHead, written: StoreChange): Promise<void> {
    const { epoch } = this.#head;
    // What had no room is read again once some may have been unset.
    const hasNewRoom = this.#withoutRoom > 0 && this.#options.table.changes !== this.#comparedChanges;
    if (head.epoch === "") {
      // The store may have limits without an epoch, or may have lost them.
      if (!this.#hasCompared || epoch !== "" || this.#options.table.size > 0) await this.#compare(store, head);
    } else if (hasNewRoom || head.epoch !== epoch || !(await this.#takeChanges(store, head, written))) {
      if (await this.#compare(store, head)) this.#options.table.forgetWritten(written);
    }
  }

  /** False if the store's history does not lead from what was taken last, by way of what was written, to the head. */
  async #takeChanges(store: RuntimeStore, head: RuntimeHead, written: StoreChange): Promise<boolean> {
    const known = this.#head;
    const marks = [known, written, head].filter(({ version }) => version > 0 && version >= known.version);
    const isBehind = marks.some(({ version }) => version > head.version);
    if (isBehind || head.version === known.version)
      return marks.every((mark) => mark.version === head.version && mark.atUs === head.atUs);
    const before = Math.max(0, known.version - 1);
    const changes = await store.changesAfter(before, head);
    if (changes === undefined) return false;
    if (marks.some(({ version, atUs }) => changes[version - before - 1]?.atUs !== atUs)) return false;
    await this.#takeAll(changes.slice(known.version - before));
    this.#head = head;
    return true;
  }

  /** Reads all, and writes what the store lacks. False if the table was compacted meanwhile: call it again. */
  async #compare(store: RuntimeStore, head: RuntimeHead): Promise<boolean> {
    this.#withoutRoom = 0;
    const inStore = new Map<string, number>();
    for await (const part of store.all()) {
      for (const { key, atUs } of part) inStore.set(key, atUs);
      await this.#takeAll(part);
    }
    const newer = await this.#newerThan(inStore);
    if (newer === undefined) return false;
    const isEmpty = inStore.size === 0 && newer.length === 0;
    if (inStore.size < head.count || (head.epoch === "" && !isEmpty)) {
      await store.renew(head);
      return this.#compare(store, await store.head());
    }
    for (let i = 0; i < newer.length; i += RUNTIME_WRITES_MAX)
      await store.write(newer.slice(i, i + RUNTIME_WRITES_MAX).map((kept) => ({ ...kept, expectedUs: undefined })));
    this.#head = head;
    this.#hasCompared = true;
    this.#comparedChanges = this.#options.table.changes;
    return true;
  }

  /** What the table has newer than the store; undefined if it was compacted meanwhile. */
  async #newerThan(inStore: ReadonlyMap<string, number>): Promise<KeptLimit[] | undefined> {
    const { table } = this.#options;
    const newer: KeptLimit[] = [];
    // Copied first, because places may change in another turn.
    const places = [...table.places()].filter((place) => table.isCurrent(place));
    const { generation } = table;
    for (const [i, place] of places.entries()) {
      if (i % PER_TURN === PER_TURN - 1) await nextTurn();
      if (table.generation !== generation) return undefined;
      const kept = table.kept(place);
      if (kept.atUs > (inStore.get(kept.key) ?? 0) && !this.#isForgotten(kept)) newer.push(kept);
    }
    return newer;
  }

  async #takeAll(limits: readonly KeptLimit[]): Promise<void> {
    for (const [i, kept] of limits.entries()) {
      this.#take(kept);
      if (i % PER_TURN === PER_TURN - 1) await nextTurn();
    }
  }

  /** Takes a limit if it is newer. Skips one that can't be read or has no room. */
  #take(kept: KeptLimit): void {
    const put = readValue(kept.value) === undefined ? "unreadable" : this.#options.table.put(kept);
    if (put === "unreadable") {
      this.failures++;
      this.#options.log.warn({ key: kept.key.slice(0, 200) }, "ignoring an unreadable limit at run time");
    } else if (put === "full") this.#withoutRoom++;
  }

  async #save(): Promise<void> {
    const { table, file, clock } = this.#options;
    const { changes } = table;
    if (changes === table.savedChanges) return;
    if (file !== undefined) await writeLimitsFile(file, table, clock.nowUs());
    table.savedChanges = changes;
  }

  async #forget(): Promise<void> {
    const { table, store, clock } = this.#options;
    if (clock.nowUs() - this.#forgotUs < FORGET_EVERY_US) return;
    this.#forgotUs = clock.nowUs();
    const { generation } = table;
    const gone = new Map<number, KeptLimit>();
    for (const [i, place] of [...table.places()].entries()) {
      if (i % PER_TURN === PER_TURN - 1) await nextTurn();
      if (table.generation !== generation) return;
      const kept = table.kept(place);
      if (table.isCurrent(place) && this.#isForgotten(kept)) gone.set(place, kept);
    }
    if (gone.size === 0) return;
    const writes = [...gone.values()].map(({ key, atUs }) => ({ key, value: "", expectedUs: atUs, atUs }));
    for (let i = 0; i < writes.length; i += RUNTIME_WRITES_MAX)
      await store?.write(writes.slice(i, i + RUNTIME_WRITES_MAX));
    if (table.generation === generation) table.compact((place) => gone.has(place));
  }

  #isForgotten({ value, atUs }: KeptLimit): boolean {
    const limit = readValue(value);
    return limit === undefined || isForgotten(limit, atUs, this.#options.clock.nowUs());
  }
}

/** Writes changes to the store, and puts in force here what was written or what was there instead. Rejects if the store does not answer. */
export async function writeThrough(
  { store, table }: { readonly store: Pick<RuntimeStore, "write">; readonly table: RuntimeTable },
  changes: readonly RuntimeWrite[],
): ReturnType<RuntimeStore["write"]> {
  const result = await store.write(changes);
  table.noteWritten(result.head);
  for (const each of result.written) if (each.outcome !== "full" && each.kept !== undefined) table.put(each.kept);
  return result;
}

/** Most checks whether other processes have a change in force: two seconds. */
const CONFIRMED_LOOKS_MAX = 40;
const LOOK_MS = 50;

/** Waits until all processes have the change that led to `head`; resolves to all processes, and to those that have not confirmed it. */
export async function confirmed(
  store: RuntimeStore,
  head: RuntimeHead,
): Promise<{ readonly all: readonly RegisteredProcess[]; readonly waiting: readonly RegisteredProcess[] }> {
  for (let look = 1; ; look++) {
    const all = (await store.beat(undefined)).all.filter(({ name }) => name !== "");
    // After another epoch the version is compared by nobody; who has it has read all.
    const waiting = all.filter(({ epoch, version }) => epoch !== head.epoch || version < head.version);
    if (waiting.length === 0 || look === CONFIRMED_LOOKS_MAX) return { all, waiting };
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
