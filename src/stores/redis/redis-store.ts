// The store that keeps buckets in one Redis, shared by as many processes as there are. Gathers the groups of one turn of
// the event loop into batches; the way to Redis is the link's, sending and settling the dispatch's business.

import { type Clock, SystemClock } from "../../core/clock.ts";
import { StoreError } from "../../core/errors.ts";
import { Mode, Source, type TakeGroup, Verdict } from "../../core/take.ts";
import { MICROS_PER_MILLI } from "../../core/units.ts";
import type { Settled, Store } from "../store.ts";
import { SILENT_STORE_OBSERVER, type StoreObserver } from "../store-observer.ts";
import { BREAKER_DEFAULTS, Breaker, type BreakerOptions } from "../wrappers/breaker.ts";
import { Batch } from "./batch.ts";
import type { RedisTarget } from "./connect.ts";
import { describeTrouble, isReadOnlyReply } from "./connect-trouble.ts";
import { Dispatch } from "./dispatch.ts";
import { Heartbeat } from "./heartbeat.ts";
import { Link } from "./link.ts";
import { type Receipt, Receipts } from "./receipts.ts";
import { loadTakeAll } from "./scripts.ts";
import { ServerTime } from "./server-time.ts";

/** Options of a Redis store; what is absent gets the default named. */
export interface RedisStoreOptions {
  readonly target: RedisTarget;
  /** Begins the names of the store's own keys, as it begins bucket keys. Default: empty. */
  readonly keyPrefix?: string;
  /** How long a take may wait for Redis; a call's own deadline counts if it is shorter. Default: 15. */
  readonly deadlineMs?: number;
  /** A connection that owes an answer for longer than this is given up. Default: 5,000. */
  readonly silenceMsMax?: number;
  /** The same for calls whose own deadline leaves at least twice as long. Default: `deadlineMs`, so no difference. */
  readonly patienceMs?: number;
  /** Takes whose outcome is not known yet; beyond them takes fail at once. Default: 16,384. */
  readonly takesInFlightMax?: number;
  readonly breaker?: BreakerOptions;
  /** Seconds, at most, that counters live longer than their window. Default: none. */
  readonly jitterSecondsMax?: number;
  /** Counts processes from the start, not only once somebody asks. Default: false. */
  readonly trackProcesses?: boolean;
  readonly observer?: StoreObserver;
  /** Measures deadlines. Default: the system's. */
  readonly clock?: Clock;
  /** Time that buckets live by, in place of the server's own; for tests. Keys then live a minute longer. */
  readonly injectedTime?: Clock;
}

const DEADLINE_MS = 15;
const SILENCE_MS_MAX = 5_000;
const TAKES_IN_FLIGHT_MAX = 16_384;
/** Closing waits for answers at least this long. */
const CLOSE_MS_MIN = 250;

/** Starts a store; it connects by itself and keeps at it. Never throws because Redis is away: `trouble` says so. */
export function openRedisStore(options: RedisStoreOptions): RedisStore {
  const store = new RedisStore(options);
  store.start();
  return store;
}

/** Keeps buckets in Redis. Always answers later, but for a take that can't be sent at all. */
export class RedisStore implements Store {
  readonly #clock: Clock;
  readonly #observer: StoreObserver;
  readonly #deadlineUs: number;
  readonly #takesInFlightMax: number;
  readonly #trackProcesses: boolean;
  readonly #serverTime = new ServerTime();
  readonly #receipts = new Receipts();
  readonly #breaker: Breaker;
  readonly #link: Link;
  readonly #dispatch: Dispatch;
  readonly #heartbeat: Heartbeat;

  /** Batches of this turn: those that are full, and the one that takes still go into. */
  #full: Batch[] = [];
  #filling: Batch | undefined;
  #takesGathered = 0;
  #isScheduled = false;
  /** The one batch that may go out while the breaker probes. */
  #probe: Batch | undefined;
  #isClosed = false;
  /** What Redis refused last, until it settles a call. */
  #refusal: string | undefined;

  constructor(options: RedisStoreOptions) {
    const { target, keyPrefix = "" } = options;
    this.#clock = options.clock ?? new SystemClock();
    this.#observer = options.observer ?? SILENT_STORE_OBSERVER;
    this.#deadlineUs = (options.deadlineMs ?? DEADLINE_MS) * MICROS_PER_MILLI;
    this.#takesInFlightMax = options.takesInFlightMax ?? TAKES_IN_FLIGHT_MAX;
    this.#trackProcesses = options.trackProcesses ?? false;
    const script = loadTakeAll();
    this.#breaker = new Breaker(options.breaker ?? BREAKER_DEFAULTS, (state) => {
      this.#probe = undefined;
      this.#observer.breakerChanged(state);
    });
    this.#link = new Link({
      target,
      script,
      selfTestKey: `${keyPrefix}headgate:self-test`,
      clock: this.#clock,
      serverTime: this.#serverTime,
      onUp: () => this.#onUp(),
      onLost: () => this.#dispatch.loseAll(this.#unreachable()),
    });
    this.#dispatch = new Dispatch({
      script,
      clock: this.#clock,
      serverTime: this.#serverTime,
      injectedTime: options.injectedTime,
      deadlineUs: this.#deadlineUs,
      patienceUs: (options.patienceMs ?? options.deadlineMs ?? DEADLINE_MS) * MICROS_PER_MILLI,
      jitterSecondsMax: options.jitterSecondsMax ?? 0,
      silenceUsMax: (options.silenceMsMax ?? SILENCE_MS_MAX) * MICROS_PER_MILLI,
      observer: this.#observer,
      breaker: this.#breaker,
      giveBack: (receipt) => this.#addReceipt(receipt),
      describe: (error) => describeTrouble(error, target),
      onRefusal: (error, sentence) => this.#onRefusal(error, sentence),
      onAnswer: () => this.#onAnswer(),
      onTrouble: (trouble) => this.#link.reconnect(trouble),
    });
    this.#heartbeat = new Heartbeat({
      key: `${keyPrefix}headgate:processes`,
      connection: () => this.#link.connection,
      serverTimeMs: () => Math.floor(this.#serverTime.estimateUs(this.#clock.nowUs()) / MICROS_PER_MILLI),
    });
  }

  /** Begins to connect. Once. */
  start(): void {
    if (this.#trackProcesses) this.#heartbeat.start();
    this.#link.start();
  }

  /** Resolves true once Redis is connected and tested, false if that takes longer than `ms`. */
  async whenUp(ms: number): Promise<boolean> {
    return await this.#link.whenUp(ms);
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
    this.#batchFor(group).add(group, then);
    this.#takesGathered += group.size;
    this.#schedule();
    return false;
  }

  giveBack(group: TakeGroup): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i];
      if (take === undefined || !take.paid || (take.mode !== Mode.pay && take.mode !== Mode.postPaid)) continue;
      const cost = take.cost - take.cappedHits;
      if (cost > 0) this.#addReceipt({ bucketKey: take.bucketKey, limit: take.limit, cost, paidAtUs: take.paidAtUs });
    }
  }

  /** Nothing is remembered here. */
  forget(_bucketKey: string): void {
    return;
  }

  /** The first call begins to count; until the first count it is 1. */
  processCount(): number {
    if (!this.#isClosed) this.#heartbeat.start();
    return this.#heartbeat.count;
  }

  /** The first call begins to count, too. */
  processIndex(): number {
    if (!this.#isClosed) this.#heartbeat.start();
    return this.#heartbeat.index;
  }

  trouble(): string | undefined {
    if (this.#link.connection === undefined) return this.#link.trouble ?? "Redis is not connected";
    if (this.#refusal !== undefined) return this.#refusal;
    if (this.#breaker.state !== "closed") return "Redis failed too many takes lately and is given a pause";
    return this.#link.trouble;
  }

  /** Refuses new takes, waits a moment for the answers that are due, then closes the connection. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#flush();
    await this.#dispatch.whenIdle(Math.max(CLOSE_MS_MIN, (2 * this.#deadlineUs) / MICROS_PER_MILLI));
    if (this.#link.connection !== undefined && !this.#receipts.isEmpty) {
      this.#flush();
      await this.#dispatch.whenIdle(CLOSE_MS_MIN);
    }
    await Promise.race([this.#heartbeat.stop(), new Promise((resolve) => setTimeout(resolve, CLOSE_MS_MIN).unref())]);
    this.#link.close();
    this.#dispatch.loseAll(this.#unreachable());
  }

  #reasonNotToSend(group: TakeGroup): StoreError | undefined {
    if (this.#isClosed) return CLOSED;
    const breaker = this.#breaker;
    if (breaker.state !== "closed") {
      if (!breaker.admits(this.#clock.nowUs())) return BREAKER_OPEN;
      const probe = this.#probe;
      if (probe !== undefined && (probe !== this.#filling || !probe.hasRoomFor(group))) return BREAKER_OPEN;
    }
    if (this.#link.connection === undefined) {
      breaker.record({ succeeded: 0, failed: 1, isProbe: breaker.state === "probing" }, this.#clock.nowUs());
      return this.#unreachable();
    }
    const underWay = this.#dispatch.takes + this.#takesGathered;
    if (underWay > 0 && underWay + group.size > this.#takesInFlightMax) return QUEUE_FULL;
    return undefined;
  }

  #batchFor(group: TakeGroup): Batch {
    let batch = this.#filling;
    if (batch !== undefined && !batch.hasRoomFor(group)) {
      this.#full.push(batch);
      batch = undefined;
    }
    if (batch === undefined) {
      batch = new Batch();
      this.#filling = batch;
    }
    if (this.#breaker.state === "probing") {
      batch.isProbe = true;
      this.#probe = batch;
    }
    return batch;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // After all sockets of this turn were read: their takes travel together.
    setImmediate(this.#onTurnEnd);
  }

  readonly #onTurnEnd = (): void => {
    this.#flush();
  };

  #flush(): void {
    this.#isScheduled = false;
    const batches = this.#full;
    if (this.#filling !== undefined) batches.push(this.#filling);
    this.#full = [];
    this.#filling = undefined;
    this.#takesGathered = 0;
    const connection = this.#link.connection;
    if (connection === undefined) {
      for (const batch of batches) this.#dispatch.failAll(batch, this.#unreachable());
      return;
    }
    if (!this.#receipts.isEmpty && this.#breaker.state === "closed") {
      if (batches.length === 0) batches.push(new Batch());
      for (const batch of batches) this.#receipts.moveTo(batch.receipts);
    }
    for (const batch of batches) this.#dispatch.send(batch, connection);
    if (!this.#receipts.isEmpty && this.#breaker.state === "closed") this.#schedule();
  }

  #addReceipt(receipt: Receipt): void {
    this.#receipts.add(receipt);
    if (this.#link.connection !== undefined) this.#schedule();
  }

  #onUp(): void {
    this.#refusal = undefined;
    this.#breaker.endPause();
    if (!this.#receipts.isEmpty) this.#schedule();
    if (this.#heartbeat.isStarted) void this.#heartbeat.beat();
  }

  #onRefusal(error: unknown, sentence: string): void {
    this.#refusal = sentence;
    if (isReadOnlyReply(error)) this.#link.reconnect("is a read-only replica");
  }

  #onAnswer(): void {
    if (this.#refusal === undefined && this.#link.trouble === undefined) return;
    this.#refusal = undefined;
    this.#link.forgetTrouble();
  }

  // One object per trouble: an error's stack costs more than a take.
  #unreachableError: StoreError | undefined;
  #unreachable(): StoreError {
    const sentence = this.#link.trouble ?? "Redis is not connected";
    if (this.#unreachableError?.message !== sentence) {
      this.#unreachableError = new StoreError("STORE_UNREACHABLE", sentence, { transient: true });
    }
    return this.#unreachableError;
  }
}

const CLOSED = new StoreError("STORE_CLOSED", "the store is closed", { transient: false });
const BREAKER_OPEN = new StoreError("STORE_BREAKER_OPEN", "Redis failed too many takes lately and is given a pause", {
  transient: true,
});
const QUEUE_FULL = new StoreError("STORE_QUEUE_FULL", "too many takes wait for Redis", { transient: true });
