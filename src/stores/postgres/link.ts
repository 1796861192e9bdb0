// Keeps one connection to PostgreSQL up: connects, makes the tables if they are missing, tests it, reports when it is up and when
// it is lost, and tries again with growing pauses, without end. The store says what travels over it.

import type { Clock } from "../../engine/base/clock.ts";
import { RetryPause } from "../batching/retry-pause.ts";
import type { ServerTime } from "../batching/server-time.ts";
import { withTimeLimit } from "../batching/time-limit.ts";
import type { PostgresTarget } from "../store-address.ts";
import { openConnection, type PostgresConnection, type SessionSettings } from "./connect.ts";
import { describeTrouble, nameOfTarget } from "./connect-trouble.ts";
import { type SchemaOptions, setUp } from "./schema.ts";
import { LOCK_BUCKETS, TAKE_EACH, WRITE_BUCKETS } from "./statements.ts";

const TIME_PINGS = 3;
/** Setting up waits for other processes that do the same. */
const SET_UP_MS_MAX = 60_000;

export interface LinkOptions {
  readonly target: PostgresTarget;
  readonly session: SessionSettings;
  readonly tables: SchemaOptions;
  /** Key that the self-test uses. */
  readonly selfTestKey: string;
  readonly clock: Clock;
  readonly serverTime: ServerTime;
  /** The connection is up. */
  readonly onUp: () => void;
  /** Its statement was answered: another one can be sent. */
  readonly onFree: () => void;
  /** The connection is gone: what was sent over it gets no answer. */
  readonly onLost: (link: Link) => void;
}

/** One connection at a time, always wanted, carrying one statement at a time. */
export class Link {
  readonly #options: LinkOptions;
  #connection: PostgresConnection | undefined;
  #isBusy = false;
  #trouble: string | undefined;
  readonly #pause = new RetryPause();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#trouble = `${nameOfTarget(options.target)} is not connected yet`;
  }

  get isUp(): boolean {
    return this.#connection !== undefined;
  }

  /** Why there is no connection; undefined if there is one. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** True if a statement can be sent now. */
  get isFree(): boolean {
    return this.#connection !== undefined && !this.#isBusy;
  }

  /** Begins to connect. Never throws; a PostgreSQL that is away is waited for. */
  start(): void {
    void this.#attempt();
  }

  /** Runs `work` over the connection, which nobody else uses meanwhile. Only while `isFree`. */
  async use<T>(work: (connection: PostgresConnection) => Promise<T>): Promise<T> {
    const connection = this.#connection;
    if (connection === undefined || this.#isBusy) throw new Error("the connection is not free");
    this.#isBusy = true;
    try {
      return await work(connection);
    } finally {
      if (connection === this.#connection) {
        this.#isBusy = false;
        this.#options.onFree();
      }
    }
  }

  /** Gives the connection up, because of that trouble, and opens another one. */
  reconnect(trouble: string): void {
    if (this.#connection === undefined) return;
    this.#connection.drop();
    this.#lose(trouble);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#connection?.drop();
    this.#connection = undefined;
    this.#trouble = `${nameOfTarget(this.#options.target)} is no longer used: the store is closed`;
  }

  async #attempt(): Promise<void> {
    const { target, session } = this.#options;
    let connection: PostgresConnection | undefined;
    let isLost = false;
    try {
      connection = await openConnection(target, session, () => {
        isLost = true;
        if (connection !== undefined && connection === this.#connection) {
          this.#lose(`${nameOfTarget(target)} closed the connection`);
        }
      });
      await withTimeLimit(SET_UP_MS_MAX, setUp(connection, this.#options.tables));
      await withTimeLimit(target.connectTimeoutMs, this.#test(connection));
      if (isLost) throw new Error("closed");
      if (this.#isClosed) connection.drop();
      else this.#take(connection);
    } catch (error) {
      connection?.drop();
      if (!this.#isClosed) this.#trouble = describeTrouble(error, target);
      this.#retryLater();
    }
  }

  #take(connection: PostgresConnection): void {
    this.#connection = connection;
    this.#isBusy = false;
    this.#trouble = undefined;
    this.#pause.reset();
    this.#options.onUp();
  }

  #lose(trouble: string): void {
    this.#connection = undefined;
    this.#trouble = trouble;
    this.#options.onLost(this);
    this.#retryLater();
  }

  #retryLater(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#attempt(), this.#pause.next());
  }

  /** Does once what takes do later: reads the server's time, pays 1 of a fixed window, and writes it again. */
  async #test(connection: PostgresConnection): Promise<void> {
    const { clock, serverTime, session, selfTestKey } = this.#options;
    for (let i = 0; i < TIME_PINGS; i++) {
      const sentUs = clock.nowUs();
      const [row] = await connection.query({
        text: "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
      });
      serverTime.observe({ sentUs, serverUs: Number(row?.[0]), receivedUs: clock.nowUs() });
    }
    const key = `{"${selfTestKey}"}`;
    const each = [key, "{1}", `{${Number.MAX_SAFE_INTEGER}}`, "{2,1000000,1000000,1,1}", "0"];
    await connection.query({ ...TAKE_EACH, values: each });
    const [row = []] = await connection.query({
      ...LOCK_BUCKETS,
      values: [key, "false", String(session.lockTimeoutMs)],
    });
    const [, ...numbers] = row.slice(0, -1).map((number) => `{${number}}`);
    await connection.query({ ...WRITE_BUCKETS, values: [key, ...numbers, "{NULL}", "1", "0"] });
  }
}
