// Keeps one connection to Redis up: connects, tests it, tells when it is up and when it is lost, and tries again with
// growing pauses, without end. What travels over it is the store's business.

import type { Clock } from "../../core/clock.ts";
import { isReplyError, openConnection, type RedisConnection, type RedisTarget, within } from "./connect.ts";
import { describeTrouble, isReadOnlyReply, nameOfTarget, refusesWritesForNow } from "./connect-trouble.ts";
import type { Script } from "./scripts.ts";
import type { ServerTime } from "./server-time.ts";

/** Pauses between attempts double from the one to the other. */
const PAUSE_MIN_MS = 20;
const PAUSE_MAX_MS = 1_000;
const TIME_PINGS = 3;

export interface LinkOptions {
  readonly target: RedisTarget;
  readonly script: Script;
  /** Key that the self-test pays on; lives for a second. */
  readonly selfTestKey: string;
  readonly clock: Clock;
  readonly serverTime: ServerTime;
  readonly onUp: () => void;
  /** The connection is gone: what was sent over it gets no answer. */
  readonly onLost: () => void;
}

/** One connection at a time, always wanted. */
export class Link {
  readonly #options: LinkOptions;
  #connection: RedisConnection | undefined;
  #trouble: string | undefined;
  #pauseMs = PAUSE_MIN_MS;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  readonly #waiters = new Set<() => void>();

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#trouble = `${nameOfTarget(options.target)} is not connected yet`;
  }

  /** The connection, if it is up and passed its test. */
  get connection(): RedisConnection | undefined {
    return this.#connection;
  }

  /** Why there is no connection, or what Redis refused in its test; undefined if all is well. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** Begins to connect. Never throws; a Redis that is away is waited for. */
  start(): void {
    void this.#attempt();
  }

  /** Resolves true once the connection is up, false if that takes longer than `ms`. */
  async whenUp(ms: number): Promise<boolean> {
    if (this.#connection !== undefined) return true;
    return await new Promise<boolean>((resolve) => {
      const up = () => {
        clearTimeout(timer);
        this.#waiters.delete(up);
        resolve(this.#connection !== undefined);
      };
      const timer = setTimeout(up, ms);
      this.#waiters.add(up);
    });
  }

  /** Gives the connection up, because `reason`, and opens another one. */
  reconnect(reason: string): void {
    if (this.#connection === undefined) return;
    this.#connection.drop();
    this.#lose(`${nameOfTarget(this.#options.target)} ${reason}`);
  }

  /** The test's complaint no longer holds: Redis took a write. */
  forgetTrouble(): void {
    if (this.#connection !== undefined) this.#trouble = undefined;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#connection?.drop();
    this.#connection = undefined;
    this.#trouble = `${nameOfTarget(this.#options.target)} is no longer used: the store is closed`;
    for (const waiter of this.#waiters) waiter();
  }

  async #attempt(): Promise<void> {
    const { target } = this.#options;
    const closedByPeer = `${nameOfTarget(target)} closed the connection`;
    let connection: RedisConnection | undefined;
    let isLost = false;
    try {
      connection = await openConnection(target, () => {
        isLost = true;
        if (connection !== undefined && connection === this.#connection) this.#lose(closedByPeer);
      });
      const trouble = await within(target.connectTimeoutMs, this.#test(connection));
      if (isLost) throw new Error("Connection is closed.");
      if (this.#isClosed) connection.drop();
      else this.#use(connection, trouble);
    } catch (error) {
      connection?.drop();
      this.#trouble = describeTrouble(error, target);
      this.#retryLater();
    }
  }

  #use(connection: RedisConnection, trouble: string | undefined): void {
    this.#connection = connection;
    this.#trouble = trouble;
    this.#pauseMs = PAUSE_MIN_MS;
    this.#options.onUp();
    for (const waiter of this.#waiters) waiter();
  }

  #lose(trouble: string): void {
    this.#connection = undefined;
    this.#trouble = trouble;
    this.#options.serverTime.forget();
    this.#options.onLost();
    this.#retryLater();
  }

  #retryLater(): void {
    if (this.#isClosed) return;
    // Spread, so that a fleet does not come back in one instant.
    const pauseMs = this.#pauseMs * (0.5 + Math.random() / 2);
    this.#pauseMs = Math.min(PAUSE_MAX_MS, this.#pauseMs * 2);
    this.#timer = setTimeout(() => void this.#attempt(), pauseMs);
  }

  /**
   * Does once all that takes do later: reads the server's time, runs the script, pays a cost. Throws what makes the
   * connection useless; returns what Redis refuses for now only.
   */
  async #test(connection: RedisConnection): Promise<string | undefined> {
    const { target, clock, serverTime } = this.#options;
    for (let i = 0; i < TIME_PINGS; i++) {
      const sentUs = clock.nowUs();
      const serverUs = timeOf(await connection.command("time", []));
      serverTime.observe({ sentUs, serverUs, receivedUs: clock.nowUs() });
    }
    try {
      await this.#testTake(connection);
    } catch (error) {
      if (refusesWritesForNow(error) && !isReadOnlyReply(error)) return describeTrouble(error, target);
      throw error;
    }
    return undefined;
  }

  // Cost 1 of a fixed window of one second; nothing is left behind.
  async #testTake(connection: RedisConnection): Promise<void> {
    const { script, selfTestKey } = this.#options;
    const args = ["1", selfTestKey, "0", "[2,1000000,1000000,1,1000000]", "[]", "[1,0,0,1,1,0,0,0,1]"];
    try {
      await connection.command("evalsha", [script.sha, ...args]);
    } catch (error) {
      if (!isReplyError(error) || !error.message.startsWith("NOSCRIPT")) throw error;
      await connection.command("eval", [script.text, ...args]);
    }
    await connection.command("del", [selfTestKey]);
  }
}

// TIME replies with seconds and microseconds, as text.
function timeOf(reply: unknown): number {
  if (!Array.isArray(reply)) throw new TypeError("TIME replied with something else");
  return Number(String(reply[0])) * 1_000_000 + Number(String(reply[1]));
}
