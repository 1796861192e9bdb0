// The store that keeps buckets in one PostgreSQL, shared by as many processes as there are. Gathers the groups of one turn
// of the event loop; the ways to PostgreSQL are the links', sending and settling the dispatch's business.

import { randomUUID } from "node:crypto";
import { type Clock, SystemClock } from "../../core/clock.ts";
import { StoreError } from "../../core/errors.ts";
import { Mode, Source, type TakeGroup, Verdict } from "../../core/take.ts";
import { MICROS_PER_MILLI } from "../../core/units.ts";
import { Receipts } from "../redis/receipts.ts";
import { ServerTime } from "../redis/server-time.ts";
import type { Settled, Store } from "../store.ts";
import { SILENT_STORE_OBSERVER, type StoreObserver } from "../store-observer.ts";
import { BREAKER_DEFAULTS, Breaker, type BreakerOptions } from "../wrappers/breaker.ts";
import { type Batch, storedKey } from "./batch.ts";
import type { PostgresTarget, SessionSettings } from "./connect.ts";
import { describeTrouble, nameOfTarget, needsAnotherConnection } from "./connect-trouble.ts";
import { Dispatch } from "./dispatch.ts";
import { Link } from "./link.ts";
import { Upkeep } from "./upkeep.ts";

/** Options of a PostgreSQL store; what is absent gets the default named. */
export interface PostgresStoreOptions {
  readonly target: PostgresTarget;
  /** Schema that holds the tables and functions, made if it is not there; a plain name. Default: headgate. */
  readonly schema?: string;
  /** Begins the names of the store's own keys, as it begins bucket keys. Default: empty. */
  readonly keyPrefix?: string;
  /** Connections, each for one call at a time. Default: 4. */
  readonly connections?: number;
  /** Keeps the buckets' tables out of the write-ahead log: quicker, and empty after a crash. Default: as they are. */
  readonly unlogged?: boolean;
  /** Waits until a payment is on disk before it answers. Default: false, a crash may forget the last half second. */
  readonly waitsForDisk?: boolean;
  /** What keeps calls apart: rows locked in the order of their keys, or SERIALIZABLE. Default: row locks. */
  readonly isolation?: "row locks" | "serializable";
  /** How long a take may wait for PostgreSQL; a call's own deadline counts if it is shorter. Default: 15. */
  readonly deadlineMs?: number;
  /** A connection that owes an answer for longer than this is given up. Default: 5,000. */
  readonly silenceMsMax?: number;
  /** Takes whose outcome is not known yet; beyond them takes fail at once. Default: 16,384. */
  readonly takesInFlightMax?: number;
  readonly breaker?: BreakerOptions;
  /** Counts processes from the start, not only once somebody asks. Default: false. */
  readonly trackProcesses?: boolean;
  /** Drops buckets that mean nothing any more. Default: true. */
  readonly sweeps?: boolean;
  readonly observer?: StoreObserver;
  /** Measures deadlines. Default: the system's. */
  readonly clock?: Clock;
  /** Time that buckets live by, in place of the server's own; for tests. */
  readonly injectedTime?: Clock;
}

const CONNECTIONS = 4;
const DEADLINE_MS = 15;
const SILENCE_MS_MAX = 5_000;
const TAKES_IN_FLIGHT_MAX = 16_384;
/** Closing waits for answers at least this long. */
const CLOSE_MS_MIN = 250;

/** Starts a store; it connects by itself and keeps at it. Never throws because PostgreSQL is away: `trouble` says so. */
export function openPostgresStore(options: PostgresStoreOptions): PostgresStore {
  const store = new PostgresStore(options);
  store.start();
  return store;
}

/** Keeps buckets in PostgreSQL. Always answers later, but for a take that can't be sent at all. */
export class PostgresStore implements Store {
  readonly #clock: Clock;
  readonly #observer: StoreObserver;
  readonly #deadlineUs: number;
  readonly #takesInFlightMax: number;
  readonly #options: PostgresStoreOptions;
  readonly #receipts = new Receipts();
  readonly #serverTime = new ServerTime();
  readonly #breaker: Breaker;
  readonly #links: readonly Link[];
  readonly #dispatch: Dispatch;
  readonly #upkeep: Upkeep;
  readonly #waiters = new Set<() => void>();

  #isScheduled = false;
  /** The one batch that may go out while the breaker probes. */
  #probe: Batch | undefined;
  #isClosed = false;
  /** What PostgreSQL refused last, until it settles a call. */
  #refusal: string | undefined;

  constructor(options: PostgresStoreOptions) {
    this.#options = options;
    this.#clock = options.clock ?? new SystemClock();
    this.#observer = options.observer ?? SILENT_STORE_OBSERVER;
    this.#deadlineUs = (options.deadlineMs ?? DEADLINE_MS) * MICROS_PER_MILLI;
    this.#takesInFlightMax = options.takesInFlightMax ?? TAKES_IN_FLIGHT_MAX;
    this.#breaker = new Breaker(options.breaker ?? BREAKER_DEFAULTS, (state) => {
      this.#probe = undefined;
      this.#observer.breakerChanged(state);
    });
    this.#links = Array.from({ length: options.connections ?? CONNECTIONS }, () => this.#newLink());
    this.#dispatch = new Dispatch({
      clock: this.#clock,
      serverTime: this.#serverTime,
      injectedTime: options.injectedTime,
      isSerializable: options.isolation === "serializable",
      deadlineUs: this.#deadlineUs,
      silenceUsMax: (options.silenceMsMax ?? SILENCE_MS_MAX) * MICROS_PER_MILLI,
      observer: this.#observer,
      breaker: this.#breaker,
      receipts: this.#receipts,
      freeLink: () => this.#freeLink(),
      serverName: nameOfTarget(options.target),
      describe: (error) => describeTrouble(error, options.target),
      onRefusal: (error, sentence, link) => this.#onRefusal(error, sentence, link),
      onAnswer: () => {
        this.#refusal = undefined;
      },
    });
    this.#upkeep = new Upkeep({ freeLink: () => this.#freeLink(), injectedTime: options.injectedTime });
  }

  /** Begins to connect. Once. */
  start(): void {
    if (this.#options.trackProcesses === true) this.#upkeep.startBeating();
    if (this.#options.sweeps !== false) this.#upkeep.startSweeping();
    for (const link of this.#links) link.start();
  }

  /** Resolves true once a connection to PostgreSQL is up and tested, false if that takes longer than `ms`. */
  async whenUp(ms: number): Promise<boolean> {
    if (this.#isUp()) return true;
    return await new Promise<boolean>((resolve) => {
      const up = () => {
        clearTimeout(timer);
        this.#waiters.delete(up);
        resolve(this.#isUp());
      };
      const timer = setTimeout(up, ms);
      this.#waiters.add(up);
    });
  }

  /** Calls that were made again because another transaction was in the way, since the start. */
  get repeats(): number {
    return this.#dispatch.repeats;
  }

  take(group: TakeGroup, then: Settled): boolean {
    group.source = Source.store;
    if (group.size === 0) {
      group.verdict = Verdict.allowed;
      return true;
    }
    const error = this.#reasonNotToSend(group);
    if (error !== undefined) {
      group.verdict = Verdict.failed;
      group.failure = error;
      this.#observer.failed(error);
      return true;
    }
    const batch = this.#dispatch.add(group, then);
    if (this.#breaker.state === "probing") {
      batch.isProbe = true;
      this.#probe = batch;
    }
    this.#schedule();
    return false;
  }

  giveBack(group: TakeGroup): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i];
      if (take === undefined || !take.paid || (take.mode !== Mode.pay && take.mode !== Mode.postPaid)) continue;
      const { bucketKey, limit, cost, cappedHits, paidAtUs } = take;
      if (cost > cappedHits) this.#receipts.add({ bucketKey, limit, cost: cost - cappedHits, paidAtUs });
    }
    if (!this.#receipts.isEmpty && this.#isUp()) this.#schedule();
  }

  /** Nothing is remembered here. */
  forget(_bucketKey: string): void {
    return;
  }

  /** The first call begins to count; until the first count it is 1. */
  processCount(): number {
    if (!this.#isClosed) this.#upkeep.startBeating();
    return this.#upkeep.count;
  }

  /** The first call begins to count; until the first count it is -1. */
  processIndex(): number {
    if (!this.#isClosed) this.#upkeep.startBeating();
    return this.#upkeep.index;
  }

  trouble(): string | undefined {
    if (!this.#isUp()) return this.#links[0]?.trouble ?? "PostgreSQL is not connected";
    if (this.#refusal !== undefined) return this.#refusal;
    if (this.#breaker.state !== "closed") return "PostgreSQL failed too many takes lately and is given a pause";
    return undefined;
  }

  /** Drops a few buckets that mean nothing any more, now; resolves to how many, undefined if no connection is free. */
  async sweep(): Promise<number | undefined> {
    return await this.#upkeep.sweep();
  }

  /** Refuses new takes, waits a moment for the answers that are due, then closes the connections. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#dispatch.flush();
    await this.#dispatch.whenIdle(Math.max(CLOSE_MS_MIN, (2 * this.#deadlineUs) / MICROS_PER_MILLI));
    if (this.#isUp() && !this.#receipts.isEmpty) {
      this.#dispatch.pump();
      await this.#dispatch.whenIdle(CLOSE_MS_MIN);
    }
    await Promise.race([this.#upkeep.stop(), new Promise((resolve) => setTimeout(resolve, CLOSE_MS_MIN).unref())]);
    for (const link of this.#links) link.close();
    this.#dispatch.failQueue(this.#unreachable());
    for (const link of this.#links) this.#dispatch.lose(link, this.#unreachable());
    for (const waiter of this.#waiters) waiter();
  }

  #newLink(): Link {
    const { target, schema = "headgate", keyPrefix = "", unlogged, waitsForDisk = false, isolation } = this.#options;
    const silenceMsMax = this.#options.silenceMsMax ?? SILENCE_MS_MAX;
    const session: SessionSettings = {
      schema,
      waitsForDisk,
      isSerializable: isolation === "serializable",
      // Who waits longer than this for a row pays nothing any more.
      lockTimeoutMs: Math.ceil(this.#deadlineUs / MICROS_PER_MILLI),
      statementTimeoutMs: silenceMsMax,
    };
    return new Link({
      target,
      session,
      migration: { schema, unlogged },
      selfTestKey: `${storedKey(keyPrefix)}headgate:self-test:${randomUUID()}`,
      clock: this.#clock,
      serverTime: this.#serverTime,
      onUp: () => this.#onUp(),
      onFree: () => this.#onFree(),
      onLost: (link) => this.#onLost(link),
    });
  }

  #isUp(): boolean {
    return this.#links.some((link) => link.isUp);
  }

  #freeLink(): Link | undefined {
    return this.#links.find((link) => link.isFree);
  }

  #reasonNotToSend(group: TakeGroup): StoreError | undefined {
    if (this.#isClosed) return CLOSED;
    const breaker = this.#breaker;
    if (breaker.state !== "closed") {
      if (!breaker.admits(this.#clock.nowUs())) return BREAKER_OPEN;
      const probe = this.#probe;
      if (probe !== undefined && probe !== this.#dispatch.batchFor(group)) return BREAKER_OPEN;
    }
    if (!this.#isUp()) {
      breaker.record({ succeeded: 0, failed: 1, isProbe: breaker.state === "probing" }, this.#clock.nowUs());
      return this.#unreachable();
    }
    const { takes } = this.#dispatch;
    if (takes > 0 && takes + group.size > this.#takesInFlightMax) return QUEUE_FULL;
    return undefined;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // After all sockets of this turn were read: their takes travel together.
    setImmediate(this.#onTurnEnd);
  }

  readonly #onTurnEnd = (): void => {
    this.#isScheduled = false;
    if (this.#isUp()) this.#dispatch.flush();
    else this.#dispatch.failQueue(this.#unreachable());
  };

  #onUp(): void {
    this.#breaker.endPause();
    for (const waiter of this.#waiters) waiter();
    if (this.#upkeep.isBeating) void this.#upkeep.beat();
    this.#onFree();
  }

  #onFree(): void {
    if (this.#isClosed) {
      this.#dispatch.pump();
      return;
    }
    // In the next turn, so that takes of what was just answered join in.
    this.#schedule();
  }

  #onLost(link: Link): void {
    this.#dispatch.lose(link, this.#unreachable());
    if (this.#isUp()) return;
    // The next connection may lead to another server.
    this.#serverTime.forget();
    this.#dispatch.failQueue(this.#unreachable());
  }

  #onRefusal(error: unknown, sentence: string, link: Link): void {
    this.#refusal = sentence;
    if (needsAnotherConnection(error)) link.reconnect(sentence);
  }

  // One object per trouble: an error's stack costs more than a take.
  #unreachableError: StoreError | undefined;
  #unreachable(): StoreError {
    const sentence = this.#links[0]?.trouble ?? "PostgreSQL is not connected";
    if (this.#unreachableError?.message !== sentence) {
      this.#unreachableError = new StoreError("STORE_UNREACHABLE", sentence, { transient: true });
    }
    return this.#unreachableError;
  }
}

const CLOSED = new StoreError("STORE_CLOSED", "the store is closed", { transient: false });
const BREAKER_OPEN = new StoreError(
  "STORE_BREAKER_OPEN",
  "PostgreSQL failed too many takes lately and is given a pause",
  { transient: true },
);
const QUEUE_FULL = new StoreError("STORE_QUEUE_FULL", "too many takes wait for PostgreSQL", { transient: true });
