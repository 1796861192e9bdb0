// The store that keeps buckets in one PostgreSQL, shared by any number of processes. Takes come in by the intake and
// leave over free connections: batches wait while all are busy, and fill up meanwhile. Only a call that PostgreSQL
// rolled back because of another transaction is sent again, a bounded number of times.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { StoreError } from "../../base/errors.ts";
import { MICROS_PER_MILLI } from "../../base/units.ts";
import type { TakeListener } from "../../engine/domain/store.ts";
import type { TakeGroup } from "../../engine/domain/take.ts";
import type { PostgresTarget } from "../../settings/store-address.ts";
import { Intake, type ProbeBucket } from "../batching/intake.ts";
import type { LinkEvents } from "../batching/link.ts";
import { type BatchingOptions, completeOptions } from "../batching/options.ts";
import type { ReplyReader } from "../batching/reply.ts";
import { type Backend, SharedStore } from "../batching/shared-store.ts";
import { openAside, type PostgresAside } from "./aside.ts";
import type { PostgresConnection, SessionSettings } from "./connect.ts";
import { describePostgresTrouble } from "./connect-trouble.ts";
import { Housekeeping } from "./housekeeping.ts";
import { LockedKeys, NOT_PLAIN, Queue, UNKNOWN_HOLDER } from "./locked-keys.ts";
import { BatchSettlement, settleLocked } from "./locked-takes.ts";
import { isPlain, PostgresBatch, storedKey } from "./postgres-batch.ts";
import { PostgresLink } from "./postgres-link.ts";
import { postgresProcessRegister } from "./process-register.ts";
import {
  isRefusal,
  isWorthRepeating,
  keyOfMade,
  needsAnotherConnection,
  postgresRanNothing,
  waitedTooLong,
} from "./refusals.ts";
import { readTakeEach, TAKE_EACH, takeEachArguments } from "./take-each.ts";

/** Options of a PostgreSQL store, with their defaults. */
interface PostgresStoreOptions extends BatchingOptions {
  readonly target: PostgresTarget;
  /** Schema that holds the tables and functions, made if it is not there; a plain name. Default: headgate. */
  readonly schema?: string;
  /** Connections for takes, each for one call at a time; there is one more for all else. Default: 4. */
  readonly connections?: number;
  /** Waits until a payment is on disk before it answers. Default: false, a crash may forget the last half second. */
  readonly waitsForDisk?: boolean;
  /** Deletes expired buckets. Default: true. */
  readonly sweeps?: boolean;
}

const CONNECTIONS = 4;
/** Even a call that waits as long as this behind a call that did is answered in time. */
const HELD_PER_DEADLINE = 3;
/** A call that waits has other rows locked meanwhile, and lets them go long before they count as held for long. */
const WAITS_PER_HELD = 2;
const LITTLE_MS = 1;
/** How often a call is sent at most. */
const ATTEMPTS_MAX = 6;
/** From the third attempt on there is a pause first, of a random length that may double each time. */
const PAUSE_MS = 1;
/**
 * A process that is stopped with rows locked loses them after its calls' deadlines, but not for a busy turn of its
 * event loop.
 */
const IDLE_MS_MIN = 100;
const CLOSED_ERROR = new StoreError(
  "STORE_TIMEOUT",
  "somebody else has inserted a row of the call into PostgreSQL and not committed for long",
);

/**
 * From this many calls of plain takes under way on, further takes wait and gather: one call may carry all takes of some
 * turns. Three or four calls at once cost the server a tenth more: they are smaller and wait for each other's rows.
 */
const PLAIN_UNDER_WAY_MAX = 2;

/**
 * Opens the store, which connects automatically and keeps trying. Never throws because PostgreSQL is away: `trouble`
 * says so.
 */
export function openPostgresStore(options: PostgresStoreOptions): SharedStore<PostgresBackend, PostgresAside> {
  const backend = new PostgresBackend(options);
  const { aside } = backend;
  return new SharedStore(backend, aside, postgresProcessRegister(aside), completeOptions(options).clock);
}

/** One PostgreSQL and the connections to it. */
export class PostgresBackend extends Intake<PostgresBatch> implements Backend {
  readonly housekeeping: Housekeeping;
  readonly aside: PostgresAside;
  readonly #options: PostgresStoreOptions;
  /** Connections for takes. */
  readonly #links: readonly PostgresLink[];
  /** The connection for all else, so that no load keeps it waiting. */
  readonly #asideLink: PostgresLink;
  readonly #settlement: BatchSettlement;
  readonly #lockedKeys: LockedKeys;
  // No other process has this key, so none locks its row.
  readonly #probeBucket: ProbeBucket;

  constructor(options: PostgresStoreOptions) {
    super(completeOptions(options), "PostgreSQL", false);
    const { keyPrefix = "", connections = CONNECTIONS, injectedTime } = options;
    const { silenceUsMax } = this.options;
    this.#options = options;
    this.#probeBucket = { bucketKey: `${keyPrefix}headgate:self-test:${randomUUID()}`, queue: Queue.free };
    // Calls are grouped by how long they may wait, less the resolution of timers.
    this.#lockedKeys = new LockedKeys((this.#heldMs - LITTLE_MS) * MICROS_PER_MILLI);
    // All connections that meet the same held row, one after another, wait no longer than a call that waits for it.
    const plainWaitMs = Math.max(LITTLE_MS, Math.floor(this.#heldMs / connections));
    this.#links = Array.from({ length: connections }, () => {
      const link = this.#newLink(plainWaitMs, {
        onUp: () => this.onUp(),
        // In the next turn, so that takes of what was just answered join in.
        onFree: () => this.schedule(),
        onLost: () => this.#onLost(link),
      });
      return link;
    });
    const ignore = () => undefined;
    this.#asideLink = this.#newLink(this.#lockTimeoutMs, { onUp: ignore, onFree: ignore, onLost: ignore });
    this.#settlement = new BatchSettlement(this.answers.latestOf, injectedTime);
    const silenceMs = silenceUsMax / MICROS_PER_MILLI;
    this.housekeeping = new Housekeeping({ link: this.#asideLink, silenceMs, injectedTime });
    const { target } = options;
    this.aside = openAside({
      link: this.#asideLink,
      others: this.#links,
      target,
      silenceMs,
      keyPrefix,
      clock: this.options.clock,
      serverTime: this.serverTime,
    });
  }

  start(): void {
    if (this.#options.sweeps !== false) this.housekeeping.startSweeping();
    for (const link of this.#links) link.start();
    this.#asideLink.start();
  }

  override take(group: TakeGroup, then: TakeListener): boolean {
    const queue = this.#lockedKeys.queueOf(group, this.options.clock.nowUs());
    if (queue === Queue.free && isPlain(group)) return super.take(group, then, Queue.plain);
    if (queue !== Queue.closed) return super.take(group, then, queue);
    this.fail(group, CLOSED_ERROR);
    return true;
  }

  override async drain(): Promise<void> {
    await super.drain();
    this.housekeeping.stopSweeping();
  }

  close(): void {
    for (const link of [...this.#links, this.#asideLink]) link.close();
    this.end();
  }

  protected get down(): string | undefined {
    for (const { connection } of this.#links) if (connection !== undefined) return undefined;
    return this.#links[0]?.trouble;
  }

  protected newBatch(queue: number): PostgresBatch {
    return new PostgresBatch(queue);
  }

  protected send(): void {
    for (const link of this.#links) {
      if (!link.isFree) continue;
      const batch = this.next();
      if (batch === undefined) return;
      void this.#sendOver(link, batch);
    }
  }

  onSilence({ link }: PostgresBatch, trouble: string): void {
    link?.reconnect(`${link.name} ${trouble}`);
  }

  protected probeBucket(): ProbeBucket {
    return this.#probeBucket;
  }

  protected override queueOfHeld(bucketKey: string, holder: number, group: TakeGroup): number | undefined {
    if (holder === NOT_PLAIN) return Queue.free;
    return this.#lockedKeys.passedOver(group, bucketKey, holder, this.options.clock.nowUs());
  }

  /** Batches that wait for rows, or whose rows are locked for long, use one connection and leave the others free. */
  protected override underWayMax(queue: number): number {
    if (queue === Queue.free) return Number.POSITIVE_INFINITY;
    return queue === Queue.plain ? PLAIN_UNDER_WAY_MAX : 1;
  }

  #newLink(lockTimeoutMs: number, events: LinkEvents & { readonly onFree: () => void }): PostgresLink {
    const { target, schema = "headgate", keyPrefix = "", waitsForDisk = false } = this.#options;
    const { clock, deadlineUs, patienceUs, silenceUsMax } = this.options;
    const session: SessionSettings = {
      schema,
      waitsForDisk,
      lockTimeoutMs,
      statementTimeoutMs: silenceUsMax / MICROS_PER_MILLI,
      idleTimeoutMs: Math.max(IDLE_MS_MIN, Math.ceil(Math.max(deadlineUs, patienceUs) / MICROS_PER_MILLI)),
    };
    return new PostgresLink({
      target,
      session,
      selfTestKey: `${storedKey(keyPrefix)}headgate:self-test:${randomUUID()}`,
      clock,
      serverTime: this.serverTime,
      ...events,
    });
  }

  /**
   * How long somebody may keep a row before calls on it wait no longer: long enough for ordinary calls to end, and
   * short enough that calls in a batch with a row that is locked for longer are still answered.
   */
  get #heldMs(): number {
    return Math.max(LITTLE_MS + 1, Math.floor(this.options.deadlineUs / (HELD_PER_DEADLINE * MICROS_PER_MILLI)));
  }

  /** How long a call waits for a locked row or table at a time. */
  get #lockTimeoutMs(): number {
    return Math.max(LITTLE_MS, Math.floor(this.#heldMs / WAITS_PER_HELD));
  }

  #onLost(link: PostgresLink): void {
    this.answers.loseSent(this.unreachable(link.trouble), (batch) => batch.link === link);
    if (this.down === undefined) return;
    // The next connection may lead to another server.
    this.serverTime.forget();
    this.failGathered();
  }

  async #sendOver(link: PostgresLink, batch: PostgresBatch): Promise<void> {
    batch.link = link;
    await link.use(async (connection) => {
      for (;;) {
        try {
          this.onReply(batch, await this.#call(batch, connection), link);
          return;
        } catch (error) {
          if (!(await this.#repeats(batch, error))) {
            this.#onError(batch, link, error);
            return;
          }
        }
      }
    });
  }

  /** Resolves to the reply; undefined if the answer is no reply. */
  async #call(batch: PostgresBatch, connection: PostgresConnection): Promise<ReplyReader | undefined> {
    const { clock, injectedTime } = this.options;
    batch.attempts++;
    batch.sentUs = clock.nowUs();
    const takes = batch.plainTakes(this.answers.latestOf);
    const each = takes && takeEachArguments(takes);
    if (takes === undefined || each === undefined) {
      return await settleLocked(batch, connection, this.#settlement, this.#lockTimeoutMs);
    }
    const values = [...each, String(injectedTime?.nowUs() ?? 0)];
    return readTakeEach(batch, takes, await connection.query({ ...TAKE_EACH, values }));
  }

  /** Whether the batch is sent again, after a pause if it was in conflict repeatedly. */
  async #repeats(batch: PostgresBatch, error: unknown): Promise<boolean> {
    if (batch.state === "done") return false;
    if (this.#passesOver(batch, error)) return batch.isWanted;
    if (batch.waits && waitedTooLong(error)) {
      // Its rows that are not locked can still be paid.
      batch.waits = false;
      return batch.isWanted;
    }
    if (!isWorthRepeating(error) || batch.attempts >= ATTEMPTS_MAX) return false;
    // Nobody waits for it any more, and nothing was paid.
    if (!batch.isWanted) return false;
    this.options.observer.repeated();
    if (batch.attempts > 1) await sleep(Math.random() * PAUSE_MS * 2 ** (batch.attempts - 1));
    return true;
  }

  /** True if the batch waited for rows of only some of its groups; these are passed over now. */
  #passesOver(batch: PostgresBatch, error: unknown): boolean {
    const { answers } = this;
    const made = keyOfMade(error);
    if (made !== undefined) {
      return answers.passOver(batch, ({ bucketKey }) => storedKey(bucketKey) === made, UNKNOWN_HOLDER) > 0;
    }
    if (batch.waits || !waitedTooLong(error)) return false;
    // Another transaction holds a row of a take_each call, and the error does not name it. Under lock that row can be
    // passed over.
    if (batch.queue === Queue.plain) return answers.passOver(batch, () => true, NOT_PLAIN) > 0;
    // A call that waits for no row waits for a table: the one of settled holds, if others can go on without it.
    return answers.passOver(batch, ({ limit }) => limit.holdSeconds > 0, UNKNOWN_HOLDER) > 0;
  }

  #onError(batch: PostgresBatch, link: PostgresLink, error: unknown): void {
    if (batch.state === "done") return;
    const sentence = describePostgresTrouble(error, this.#options.target);
    if (!isRefusal(error)) {
      this.answers.lose(batch, new StoreError("STORE_UNREACHABLE", sentence, error));
      link.reconnect(sentence);
      return;
    }
    // What PostgreSQL says may quote values; it is described, never passed on.
    if (waitedTooLong(error)) {
      this.answers.fail(batch, new StoreError("STORE_TIMEOUT", sentence));
      return;
    }
    const refused = new StoreError("STORE_COMMAND", sentence);
    if (isWorthRepeating(error)) {
      this.answers.fail(batch, refused, true);
      return;
    }
    if (postgresRanNothing(error)) this.answers.fail(batch, refused);
    else this.answers.lose(batch, refused);
    this.onRefusal(sentence);
    if (needsAnotherConnection(error)) link.reconnect(sentence);
  }
}
