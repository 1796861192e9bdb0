// The store that keeps buckets in one PostgreSQL, shared by any number of processes. Takes come in by the intake, the
// dispatch sends them, and links keep the connections.

import { randomUUID } from "node:crypto";
import { StoreError } from "../../engine/base/errors.ts";
import { MICROS_PER_MILLI } from "../../engine/base/units.ts";
import { Source, type TakeGroup, Verdict } from "../../engine/domain/take.ts";
import { Intake } from "../batching/intake.ts";
import { type CompleteOptions, completeOptions, type SharedStoreOptions } from "../batching/options.ts";
import { ProcessCount } from "../batching/process-count.ts";
import { type Backend, SharedStore } from "../batching/shared-store.ts";
import type { SettleListener } from "../store.ts";
import type { PostgresTarget } from "../store-address.ts";
import { isPlain, PostgresBatch, storedKey } from "./batch.ts";
import type { SessionSettings } from "./connect.ts";
import { describeTrouble, nameOfTarget, needsAnotherConnection } from "./connect-trouble.ts";
import { Dispatch } from "./dispatch.ts";
import { Link, type LinkOptions } from "./link.ts";
import { LockedKeys, NOT_PLAIN, Queue } from "./locked-keys.ts";
import { ProcessTable } from "./process-table.ts";
import { SideConnection } from "./side-connection.ts";
import { Sweep } from "./sweep.ts";

/** Options of a PostgreSQL store, with their defaults. */
export interface PostgresStoreOptions extends SharedStoreOptions {
  readonly target: PostgresTarget;
  /** Schema that holds the tables and functions, made if it is not there; a plain name. Default: headgate. */
  readonly schema?: string;
  /** Connections for takes, each for one call at a time; there is one more for all else. Default: 4. */
  readonly connections?: number;
  /** Keeps the buckets' tables out of the write-ahead log: quicker, and empty after a crash. Default: unchanged. */
  readonly unlogged?: boolean;
  /** Waits until a payment is on disk before it answers. Default: false, a crash may forget the last half second. */
  readonly waitsForDisk?: boolean;
  /** How calls are isolated: rows locked in the order of their keys, or SERIALIZABLE. Default: row locks. */
  readonly isolation?: "row locks" | "serializable";
  /** Deletes expired buckets. Default: true. */
  readonly sweeps?: boolean;
}

const CONNECTIONS = 4;
/** Even a call that waits as long as this behind a call that did is answered in time. */
const HELD_PER_DEADLINE = 3;
/** A call that waits has other rows locked meanwhile, and lets them go long before they count as held for long. */
const WAITS_PER_HELD = 2;
const LITTLE_MS = 1;
/** A process that is stopped with rows locked loses them after its calls' deadlines, but not for a busy turn of its event loop. */
const IDLE_MS_MIN = 100;
const CLOSED_ERROR = new StoreError(
  "STORE_TIMEOUT",
  "somebody else has inserted a row of the call into PostgreSQL and not committed for long",
);

/** Opens the store, which connects by itself and keeps trying. Never throws because PostgreSQL is away: `trouble` says so. */
export function openPostgresStore(options: PostgresStoreOptions): SharedStore<PostgresBackend> {
  const backend: PostgresBackend = new PostgresBackend(options, () => void processes.beat());
  const processes = new ProcessCount(
    new ProcessTable(backend.ask, options.keyPrefix ?? ""),
    completeOptions(options).clock,
  );
  return new SharedStore(backend, processes);
}

/** One PostgreSQL and the connections to it. */
export class PostgresBackend implements Backend {
  /** Asks everything but takes, over a connection that takes do not use. */
  readonly ask: SideConnection["ask"];
  readonly #options: PostgresStoreOptions;
  readonly #complete: CompleteOptions;
  readonly #intake: Intake<PostgresBatch>;
  /** Connections for takes. */
  readonly #links: readonly Link[];
  /** The connection for all else, so that no load keeps it waiting. */
  readonly #asideLink: Link;
  readonly #dispatch: Dispatch;
  readonly #sweep: Sweep;
  readonly #lockedKeys: LockedKeys;

  constructor(options: PostgresStoreOptions, onAsideUp: () => void) {
    this.#options = options;
    this.#complete = completeOptions(options);
    // Calls are told apart by how long they may wait, less the resolution of timers.
    this.#lockedKeys = new LockedKeys((this.#heldMs - LITTLE_MS) * MICROS_PER_MILLI);
    const serverName = nameOfTarget(options.target);
    // No other process has this key, so none locks its row.
    const probeBucket = {
      bucketKey: `${options.keyPrefix ?? ""}headgate:self-test:${randomUUID()}`,
      queue: Queue.free,
    };
    this.#intake = new Intake<PostgresBatch>(this.#complete, {
      name: "PostgreSQL",
      newBatch: (queue) => new PostgresBatch(queue),
      isUp: () => this.#isUp(),
      downSentence: () => this.#links[0]?.trouble ?? "PostgreSQL is not connected",
      send: () => this.#send(),
      onSilence: (batch, trouble) => batch.link?.reconnect(`${serverName} ${trouble}`),
      probeBucket: () => probeBucket,
      onHeld: (bucketKey, holder, group) => {
        if (holder === NOT_PLAIN) return Queue.free;
        return this.#lockedKeys.passedOver(group, bucketKey, holder, this.#complete.clock.nowUs());
      },
      // What is to be given back can wait until its row is free, so it never waits with other rows locked.
      queueOfReceipts: () => Queue.free,
    });
    const length = options.connections ?? CONNECTIONS;
    // All connections that meet the same held row, one after another, wait no longer than a call that waits for it.
    const plainWaitMs = Math.max(LITTLE_MS, Math.floor(this.#heldMs / length));
    this.#links = Array.from({ length }, () =>
      this.#newLink(plainWaitMs, {
        onUp: () => this.#intake.onUp(),
        // In the next turn, so that takes of what was just answered join in.
        onFree: () => this.#intake.schedule(),
        onLost: (link) => this.#onLost(link),
      }),
    );
    this.#asideLink = this.#newLink(this.#lockTimeoutMs, {
      onUp: onAsideUp,
      onFree: () => undefined,
      onLost: () => undefined,
    });
    this.#dispatch = new Dispatch({
      ...this.#complete,
      intake: this.#intake,
      lockTimeoutMs: this.#lockTimeoutMs,
      freeLink: () => this.#freeLink(),
      serverName,
      describe: (error) => describeTrouble(error, options.target),
      onRefusal: (error, sentence, link) => this.#onRefusal(error, sentence, link),
    });
    const { ask } = new SideConnection(
      this.#asideLink,
      () => this.#freeLink(),
      this.#complete.silenceUsMax / MICROS_PER_MILLI,
    );
    this.ask = ask;
    this.#sweep = new Sweep({ ask, clock: this.#complete.clock, injectedTime: options.injectedTime });
  }

  start(): void {
    if (this.#options.sweeps !== false) this.#sweep.start();
    for (const link of this.#links) link.start();
    this.#asideLink.start();
  }

  take(group: TakeGroup, then: SettleListener): boolean {
    const queue = this.#lockedKeys.queueOf(group, this.#complete.clock.nowUs());
    if (queue === Queue.free && isPlain(group)) return this.#intake.take(group, then, Queue.plain);
    if (queue !== Queue.closed) return this.#intake.take(group, then, queue);
    group.source = Source.store;
    group.verdict = Verdict.failed;
    group.failure = CLOSED_ERROR;
    this.#complete.observer.failed(CLOSED_ERROR);
    return true;
  }

  giveBack(group: TakeGroup): void {
    this.#intake.giveBack(group);
  }

  trouble(): string | undefined {
    return this.#intake.trouble();
  }

  /** Deletes some expired rows now. Resolves to how many; undefined if that is not possible now. */
  async sweep(): Promise<number | undefined> {
    return await this.#sweep.sweep();
  }

  async drain(): Promise<void> {
    await this.#intake.close();
    this.#sweep.stop();
  }

  close(): void {
    for (const link of [...this.#links, this.#asideLink]) link.close();
    this.#intake.end();
  }

  #newLink(lockTimeoutMs: number, events: Pick<LinkOptions, "onUp" | "onFree" | "onLost">): Link {
    const { target, schema = "headgate", keyPrefix = "", unlogged, waitsForDisk = false, isolation } = this.#options;
    const { clock, deadlineUs, patienceUs, silenceUsMax } = this.#complete;
    const session: SessionSettings = {
      schema,
      waitsForDisk,
      isSerializable: isolation === "serializable",
      lockTimeoutMs,
      statementTimeoutMs: silenceUsMax / MICROS_PER_MILLI,
      idleTimeoutMs: Math.max(IDLE_MS_MIN, Math.ceil(Math.max(deadlineUs, patienceUs) / MICROS_PER_MILLI)),
    };
    return new Link({
      target,
      session,
      tables: { schema, unlogged },
      selfTestKey: `${storedKey(keyPrefix)}headgate:self-test:${randomUUID()}`,
      clock,
      serverTime: this.#intake.serverTime,
      ...events,
    });
  }

  /**
   * How long somebody may keep a row before calls on it wait no longer. With row locks: long enough for ordinary calls to end, and
   * short enough that calls beside a row that is locked for longer are still answered. With SERIALIZABLE: as long as a call may last.
   */
  get #heldMs(): number {
    const { deadlineUs, patienceUs } = this.#complete;
    if (this.#options.isolation === "serializable")
      return Math.ceil(Math.max(deadlineUs, patienceUs) / MICROS_PER_MILLI);
    return Math.max(LITTLE_MS + 1, Math.floor(deadlineUs / (HELD_PER_DEADLINE * MICROS_PER_MILLI)));
  }

  /** How long a call waits for a locked row or table at a time. */
  get #lockTimeoutMs(): number {
    if (this.#options.isolation === "serializable") return this.#heldMs;
    return Math.max(LITTLE_MS, Math.floor(this.#heldMs / WAITS_PER_HELD));
  }

  #isUp(): boolean {
    return this.#links.some((link) => link.isUp);
  }

  #freeLink(): Link | undefined {
    return this.#links.find((link) => link.isFree);
  }

  #send(): void {
    this.#intake.setDeadlines();
    this.#dispatch.pump();
  }

  #onLost(link: Link): void {
    const { settler, serverTime } = this.#intake;
    settler.loseSent(this.#intake.unreachable(), (batch) => batch.link === link);
    if (this.#isUp()) return;
    // The next connection may lead to another server.
    serverTime.forget();
    this.#intake.failGathered();
  }

  #onRefusal(error: unknown, sentence: string, link: Link): void {
    this.#intake.onRefusal(sentence);
    if (needsAnotherConnection(error)) link.reconnect(sentence);
  }
}
