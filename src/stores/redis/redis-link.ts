// A connection to Redis: how its server is found, and what is tested before takes use it.

import type { Clock } from "../../base/clock.ts";
import type { RedisAddress } from "../../settings/store-address.ts";
import { withTimeLimit } from "../batching/connecting.ts";
import { Link, type LinkEvents } from "../batching/link.ts";
import type { ServerTime } from "../batching/server-time.ts";
import { openConnection, type RedisConnection, type RedisTarget } from "./connect.ts";
import { describeConnectTrouble, describeTrouble, FindError, nameOfTarget, WrongRoleError } from "./connect-trouble.ts";
import { packNumbers } from "./redis-batch.ts";
import { isOnTheMove, isReadOnlyReply, isReplyError, refusesWritesForNow } from "./refusals.ts";
import type { Script } from "./scripts.ts";

const TIME_PINGS = 3;

/** Finds the server of a link. It is asked before each attempt to connect, because the server may change. */
export interface ServerFinder {
  /** What messages call the server before it is found. */
  readonly name: string;
  /** Whether the found server must confirm by ROLE that it is a primary. */
  readonly wantsPrimary: boolean;
  /** The server to connect to now. Rejects with FindError (connect-trouble.ts) if it can't be found. */
  find(): Promise<RedisTarget>;
  /** Notes that the server found last is in use. */
  onUsed?(): void;
  /** Calls `onMoved` with the server's address whenever it may have changed; to be called once. */
  watch?(onMoved: (address: RedisAddress) => void): void;
  close?(): void;
}

/** A server with a fixed address. */
export function fixedServer(target: RedisTarget): ServerFinder {
  return { name: nameOfTarget(target), wantsPrimary: false, find: () => Promise.resolve(target) };
}

interface RedisLinkOptions extends LinkEvents {
  readonly finder: ServerFinder;
  readonly script: Script;
  /**
   * Keys of the self-test; it pays on the first one, which lives for a second. Two keys of different hash slots make a
   * node of a cluster refuse the test. Without keys nothing is paid.
   */
  readonly selfTestKeys: () => readonly string[];
  readonly clock: Clock;
  readonly serverTime: ServerTime;
}

/** Keeps one connection up until it is closed. */
export class RedisLink extends Link<RedisConnection> {
  readonly #options: RedisLinkOptions;
  /** The server of the present connection, or of the last one. */
  #target: RedisTarget | undefined;
  /** The server's address by the last message since the attempt began. */
  #latest: RedisAddress | undefined;
  #refusal: string | undefined;

  constructor(options: RedisLinkOptions) {
    const { finder, onUp, onLost } = options;
    super(finder.name, {
      onUp: () => {
        finder.onUsed?.();
        onUp();
      },
      onLost,
    });
    this.#options = options;
  }

  /** What Redis refused for now in the test of the connection. */
  get refusal(): string | undefined {
    return this.#refusal;
  }

  /** Describes an error as a sentence without its full stop. */
  describe(error: unknown): string {
    const target = this.#target;
    if (error instanceof FindError) return error.message;
    return target === undefined ? `${this.name} can't be used` : describeTrouble(error, target);
  }

  override start(): void {
    this.#options.finder.watch?.((address) => this.#onMoved(address));
    super.start();
  }

  override close(): void {
    this.#options.finder.close?.();
    super.close();
  }

  get name(): string {
    return this.#target === undefined ? this.#options.finder.name : nameOfTarget(this.#target);
  }

  protected describeAttempt(error: unknown): string {
    if (error instanceof FindError || this.#target === undefined) return this.describe(error);
    return describeConnectTrouble(error, this.#target);
  }

  protected async open(onLost: () => void): Promise<RedisConnection> {
    this.#latest = undefined;
    const target = await this.#options.finder.find();
    this.#target = target;
    return await openConnection(target, onLost);
  }

  protected async test(connection: RedisConnection): Promise<void> {
    const target = this.#target;
    if (target === undefined) return;
    this.#refusal = await withTimeLimit(target.connectTimeoutMs, this.#testUse(connection));
    if (this.#latest !== undefined && !isSameAddress(this.#latest, target.address))
      throw new WrongRoleError("is no longer the primary");
  }

  // The primary has moved, so the next attempt need not wait for its pause.
  #onMoved(address: RedisAddress): void {
    this.#latest = address;
    if (isSameAddress(address, this.#target?.address)) return;
    if (this.connection !== undefined) this.reconnect(`${this.name} is no longer the primary`);
    this.retryNow();
  }

  /**
   * Tests what takes will need: reads the server's time, runs the script, pays a cost. Rejects if the connection can't
   * be used; resolves to what Redis refuses only for now.
   */
  async #testUse(connection: RedisConnection): Promise<string | undefined> {
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

  // Takes a cost of 1 from a fixed window of one second, and deletes the key.
  async #testTake(connection: RedisConnection): Promise<void> {
    const { script, selfTestKeys } = this.#options;
    const keys = selfTestKeys();
    if (keys.length === 0) return;
    const numbers = [[0], [2, 1_000_000, 1_000_000, 1, 1_000_000], [1, 0, 0, 1, 1, 0, 0, 0, 1]];
    const args = [String(keys.length), ...keys, ...numbers.map(packNumbers)];
    try {
      await connection.commandOfBytes("evalsha", [script.sha, ...args]);
    } catch (error) {
      if (!isReplyError(error) || !error.message.startsWith("NOSCRIPT")) throw error;
      await connection.commandOfBytes("eval", [script.text, ...args]);
    }
    await connection.command("del", keys.slice(0, 1));
  }
}

// TIME replies with seconds and microseconds, as text.
function timeOf(reply: unknown): number {
  if (!Array.isArray(reply)) throw new TypeError("TIME returned an unexpected reply");
  return Number(String(reply[0])) * 1_000_000 + Number(String(reply[1]));
}

// A replica that accepts writes would lose them, and a former primary refuses them.
async function checkIsPrimary(connection: RedisConnection): Promise<void> {
  const role: unknown = await connection.command("role", []);
  const word = Array.isArray(role) ? String(role[0]) : "";
  if (word !== "master") throw new WrongRoleError("was named as the primary, but says that it is not");
}

function isSameAddress(one: RedisAddress, other: RedisAddress | undefined): boolean {
  if (one.kind === "unix") return other?.kind === "unix" && one.path === other.path;
  return other?.kind === "tcp" && one.host === other.host && one.port === other.port;
}
