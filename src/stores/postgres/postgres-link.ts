// A connection to PostgreSQL, which carries one call at a time: how it is set up, and what is tested before takes use
// it.

import type { Clock } from "../../base/clock.ts";
import { InvariantError } from "../../base/invariant.ts";
import type { PostgresTarget } from "../../settings/store-address.ts";
import { withTimeLimit } from "../batching/connecting.ts";
import { Link, type LinkEvents } from "../batching/link.ts";
import type { ServerTime } from "../batching/server-time.ts";
import { openPostgresConnection, type PostgresConnection, type SessionSettings } from "./connect.ts";
import { describePostgresTrouble, nameOfPostgres, SharedSessionError } from "./connect-trouble.ts";
import { LOCK_BUCKETS, WRITE_BUCKETS } from "./locked-takes.ts";
import { setUp } from "./schema.ts";
import { TAKE_EACH } from "./take-each.ts";

const TIME_PINGS = 3;
/** How often it is tried whether another connection gets this one's session. */
const SHARING_TRIES = 10;
/** Setting up waits for other processes that do the same. */
const SET_UP_MS_MAX = 60_000;

interface PostgresLinkOptions extends LinkEvents {
  readonly target: PostgresTarget;
  readonly session: SessionSettings;
  /** Key that the self-test uses. */
  readonly selfTestKey: string;
  readonly clock: Clock;
  readonly serverTime: ServerTime;
  /** A statement was answered: the next can be sent. */
  readonly onFree: () => void;
}

/** One connection at a time, always wanted, carrying one statement at a time. */
export class PostgresLink extends Link<PostgresConnection> {
  readonly #options: PostgresLinkOptions;
  /** The connection that carries a statement now. */
  #busy: PostgresConnection | undefined;

  constructor(options: PostgresLinkOptions) {
    super(nameOfPostgres(options.target), options);
    this.#options = options;
  }

  /** Whether a statement can be sent now. */
  get isFree(): boolean {
    return this.connection !== undefined && this.connection !== this.#busy;
  }

  /** Runs `work` over the connection, which nobody else uses meanwhile. Only while `isFree`. */
  async use<T>(work: (connection: PostgresConnection) => Promise<T>): Promise<T> {
    const { connection } = this;
    if (connection === undefined || !this.isFree) throw new InvariantError("the connection is not free");
    this.#busy = connection;
    try {
      return await work(connection);
    } finally {
      if (connection === this.connection) {
        this.#busy = undefined;
        this.#options.onFree();
      }
    }
  }

  get name(): string {
    return nameOfPostgres(this.#options.target);
  }

  protected async open(onLost: () => void): Promise<PostgresConnection> {
    return await openPostgresConnection(this.#options.target, this.#options.session, onLost);
  }

  protected describeAttempt(error: unknown): string {
    return describePostgresTrouble(error, this.#options.target);
  }

  protected async test(connection: PostgresConnection): Promise<void> {
    const { target, session } = this.#options;
    await withTimeLimit(target.connectTimeoutMs, this.#testSession(connection));
    await withTimeLimit(SET_UP_MS_MAX, setUp(connection, session.schema));
    await withTimeLimit(target.connectTimeoutMs, this.#testUse(connection));
  }

  /**
   * Rejects with SharedSessionError if others may use the session between two statements: its settings would not be
   * ours.
   */
  async #testSession(connection: PostgresConnection): Promise<void> {
    const own = await processOf(connection);
    if (own === connection.processId) return;
    const { target, session } = this.#options;
    const other = await openPostgresConnection(target, session, () => undefined);
    try {
      for (let tries = 0; tries < SHARING_TRIES; tries++) {
        // A pooler by transaction gives each statement an idle session: the one that was used last, or the next in
        // turn.
        const others = await processOf(other);
        if (others === own || (await processOf(connection)) !== own) throw new SharedSessionError();
      }
    } finally {
      other.drop();
    }
  }

  /**
   * Does once what takes do later: reads the server's time, pays 1 of a fixed window, writes it again, and removes it.
   */
  async #testUse(connection: PostgresConnection): Promise<void> {
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
    await connection.query({ text: "DELETE FROM bucket WHERE bucket_key = ANY($1)", values: [key] });
  }
}

async function processOf(connection: PostgresConnection): Promise<number> {
  const [row] = await connection.query({ text: "SELECT pg_backend_pid()" });
  return Number(row?.[0]);
}
