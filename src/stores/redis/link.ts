// Keeps one connection to Redis up: finds the server, connects, tests the connection, reports when it is up and when it is lost, and tries
// again for ever, with growing pauses. The store uses the connection.

import type { Clock } from "../../engine/base/clock.ts";
import { RetryPause } from "../batching/retry-pause.ts";
import type { ServerTime } from "../batching/server-time.ts";
import { withTimeLimit } from "../batching/time-limit.ts";
import type { RedisAddress } from "../store-address.ts";
import { isReplyError, openConnection, type RedisConnection, type RedisTarget } from "./connect.ts";
import {
  describeConnectTrouble,
  describeTrouble,
  FindError,
  isOnTheMove,
  isReadOnlyReply,
  nameOfTarget,
  refusesWritesForNow,
  WrongRoleError,
} from "./connect-trouble.ts";
import { packNumbers } from "./packed-numbers.ts";
import type { Scripts } from "./scripts.ts";
import type { ServerFinder } from "./server-finder.ts";

const TIME_PINGS = 3;

interface LinkOptions {
  readonly finder: ServerFinder;
  readonly scripts: Scripts;
  /**
   * Keys of the self-test; it pays on the first one, which lives for a second. Two keys of different hash slots make a node of a cluster refuse
   * the test. Without keys nothing is paid.
   */
  readonly selfTestKeys: () => readonly string[];
  readonly clock: Clock;
  readonly serverTime: ServerTime;
  /** The connection is up and tested. `refusal` says what Redis refused in the test for now. */
  readonly onUp: (refusal: string | undefined) => void;
  /** The connection is lost: commands under way get no reply. */
  readonly onLost: () => void;
}

/** Keeps one connection up until it is closed. */
export class Link {
  readonly #options: LinkOptions;
  #connection: RedisConnection | undefined;
  /** The server of the present connection, or of the last one. */
  #target: RedisTarget | undefined;
  /** The server's address by the last message since the attempt began. */
  #latest: RedisAddress | undefined;
  #trouble: string | undefined;
  readonly #pause = new RetryPause();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#trouble = `${options.finder.name} is not connected yet`;
  }

  /** The connection, if it is up and has passed its test. */
  get connection(): RedisConnection | undefined {
    return this.#connection;
  }

  /** Why there is no connection; undefined while it is up. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** Describes an error as a sentence without its full stop. */
  describe(error: unknown): string {
    const target = this.#target;
    if (error instanceof FindError) return error.message;
    return target === undefined ? `${this.#options.finder.name} can't be used` : describeTrouble(error, target);
  }

  #describeConnecting(error: unknown): string {
    if (error instanceof FindError || this.#target === undefined) return this.describe(error);
    return describeConnectTrouble(error, this.#target);
  }

  /** Begins to connect. Never throws; waits for a Redis that is away. */
  start(): void {
    this.#options.finder.watch((address) => this.#onMoved(address));
    void this.#attempt();
  }

  /** Drops the connection because of `reason`, and opens another one. */
  reconnect(reason: string): void {
    if (this.#connection === undefined) return;
    this.#connection.drop();
    this.#lose(`${this.#name()} ${reason}`);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#options.finder.close();
    this.#connection?.drop();
    this.#connection = undefined;
    this.#trouble = `${this.#name()} is no longer used: the store is closed`;
  }

  #name(): string {
    return this.#target === undefined ? this.#options.finder.name : nameOfTarget(this.#target);
  }

  // The primary has moved, so the next attempt need not wait for its pause.
  #onMoved(address: RedisAddress): void {
    this.#latest = address;
    if (this.#isClosed || isSameAddress(address, this.#target?.address)) return;
    if (this.#connection !== undefined) this.reconnect("is no longer the primary");
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    void this.#attempt();
  }

  async #attempt(): Promise<void> {
    this.#timer = undefined;
    let connection: RedisConnection | undefined;
    let isLost = false;
    try {
      this.#latest = undefined;
      const target = await this.#options.finder.find();
      this.#target = target;
      connection = await openConnection(target, () => {
        isLost = true;
        if (connection !== undefined && connection === this.#connection)
          this.#lose(`${nameOfTarget(target)} closed the connection`);
      });
      const refusal = await withTimeLimit(target.connectTimeoutMs, this.#test(connection));
      if (isLost) throw new Error("Connection is closed.");
      if (this.#latest !== undefined && !isSameAddress(this.#latest, target.address))
        throw new WrongRoleError("is no longer the primary");
      if (this.#isClosed) connection.drop();
      else this.#use(connection, refusal);
    } catch (error) {
      connection?.drop();
      this.#trouble = this.#describeConnecting(error);
      this.#retryLater();
    }
  }

  #use(connection: RedisConnection, refusal: string | undefined): void {
    this.#connection = connection;
    this.#trouble = undefined;
    this.#pause.reset();
    this.#options.finder.onUsed();
    this.#options.onUp(refusal);
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
    this.#timer = setTimeout(() => void this.#attempt(), this.#pause.next());
  }

  /**
   * Tests what takes will need: reads the server's time, runs the scripts, pays a cost. Rejects if the connection can't be used; resolves to
   * what Redis refuses only for now.
   */
  async #test(connection: RedisConnection): Promise<string | undefined> {
    const { finder, clock, serverTime } = this.#options;
    if (finder.wantsPrimary) await checkIsPrimary(connection);
    for (let i = 0; i < TIME_PINGS; i++) {
      const sentUs = clock.nowUs();
      const serverUs = timeOf(await connection.command("time", []));
      serverTime.observe({ sentUs, serverUs, receivedUs: clock.nowUs() });
    }
    try {
      await this.#testTake(connection);
    } catch (error) {
      if (isOnTheMove(error)) return undefined;
      if (refusesWritesForNow(error) && !isReadOnlyReply(error)) return this.describe(error);
      throw error;
    }
    return undefined;
  }

  // Takes a cost of 1 from a fixed window of one second, with each script, and deletes the key.
  async #testTake(connection: RedisConnection): Promise<void> {
    const { scripts, selfTestKeys } = this.#options;
    const keys = selfTestKeys();
    if (keys.length === 0) return;
    const numbers = [[0], [2, 1_000_000, 1_000_000, 1, 1_000_000], [], [1, 0, 0, 1, 1, 0, 0, 0, 1]];
    const args = [String(keys.length), ...keys, ...numbers.map(packNumbers)];
    for (const script of [scripts.takeEach, scripts.takeAll]) {
      try {
        await connection.commandOfBytes("evalsha", [script.sha, ...args]);
      } catch (error) {
        if (!isReplyError(error) || !error.message.startsWith("NOSCRIPT")) throw error;
        await connection.commandOfBytes("eval", [script.text, ...args]);
      }
    }
    await connection.command("del", keys.slice(0, 1));
  }
}

// TIME replies with seconds and microseconds, as text.
function timeOf(reply: unknown): number {
  if (!Array.isArray(reply)) throw new TypeError("TIME replied with something else");
  return Number(String(reply[0])) * 1_000_000 + Number(String(reply[1]));
}

// A replica that accepts writes would lose them, and a former primary refuses them.
async function checkIsPrimary(connection: RedisConnection): Promise<void> {
  const role: unknown = await connection.command("role", []);
  const word = Array.isArray(role) ? String(role[0]) : "";
  if (word !== "master") throw new WrongRoleError("was named as the primary, but is none by its own word");
}

function isSameAddress(one: RedisAddress, other: RedisAddress | undefined): boolean {
  if (one.kind === "unix") return other?.kind === "unix" && one.path === other.path;
  return other?.kind === "tcp" && one.host === other.host && one.port === other.port;
}
