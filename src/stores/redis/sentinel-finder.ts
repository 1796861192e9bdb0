// Finds the primary that sentinels know by a name, and learns of its changes from them. Sentinels are asked one after another, the next one
// as soon as one is slow; sentinels that they name are asked too. The link checks whether the found server is a primary.

import type { RedisAccess, RedisAddress, TcpAddress } from "../../core/store-address.ts";
import { withTimeLimit } from "../batching/time-limit.ts";
import { openConnection, type RedisConnection, type RedisTarget } from "./connect.ts";
import { describeTrouble, FindError } from "./connect-trouble.ts";
import { firstAnswer } from "./first-answer.ts";
import type { ServerFinder } from "./server-finder.ts";

/** Most sentinels: those of the settings, then those learned. */
const SENTINELS_MAX = 32;
/** Interval of questions: a change without a message is noticed after this long. */
const ASK_AGAIN_MS = 3_000;
/** Pause before the next subscription. */
const WATCH_PAUSE_MS = 500;
/** How long an address from a message is used. */
const ANNOUNCED_MS_MAX = 2_000;
const CHANNEL = "+switch-master";

/** The primary's name, how to reach it, and the sentinels to ask. */
export interface SentinelTarget extends RedisAccess {
  readonly primaryName: string;
  readonly sentinels: readonly TcpAddress[];
  /** How to reach the sentinels. */
  readonly sentinelAccess: RedisAccess;
}

/** A sentinel can't be asked; this tells nothing about the primary. */
class NoSentinelError extends FindError {}

/** Asks sentinels for the primary's address. */
export class SentinelFinder implements ServerFinder {
  readonly wantsPrimary = true;
  readonly name: string;
  readonly #target: SentinelTarget;
  /** In the order in which they are asked. */
  #sentinels: TcpAddress[];
  /** The primary's address from a message; only the next `find` uses it. */
  #announced: TcpAddress | undefined;
  #announcedTimer: NodeJS.Timeout | undefined;
  /** The server found last, and the server used last. */
  #found: TcpAddress | undefined;
  #used: TcpAddress | undefined;
  #watched: RedisConnection | undefined;
  #watchTimer: NodeJS.Timeout | undefined;
  #askTimer: NodeJS.Timeout | undefined;
  #onMoved: ((address: RedisAddress) => void) | undefined;
  /** False while no server that the last answer named has been used. */
  #isTrusted = true;
  #isClosed = false;

  constructor(target: SentinelTarget) {
    this.#target = target;
    this.#sentinels = [...target.sentinels];
    this.name = `the Redis that sentinels call ${target.primaryName}`;
  }

  async find(): Promise<RedisTarget> {
    const announced = this.#announced;
    this.#announced = undefined;
    // The sentinel that named an unusable server is asked last.
    if (!this.#isTrusted && announced === undefined) this.#rotate();
    this.#isTrusted = false;
    const address = announced ?? (await this.#askOrRemember());
    this.#found = address;
    const { database, login, loginFile, tls, connectTimeoutMs } = this.#target;
    return { database, login, loginFile, tls, connectTimeoutMs, address };
  }

  onUsed(): void {
    this.#used = this.#found;
    this.#isTrusted = true;
  }

  watch(onMoved: (address: RedisAddress) => void): void {
    this.#onMoved = onMoved;
    void this.#watch(0);
    this.#askTimer = setInterval(() => void this.#compare(), ASK_AGAIN_MS).unref();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#announcedTimer);
    clearTimeout(this.#watchTimer);
    clearInterval(this.#askTimer);
    this.#watched?.drop();
  }

  // If no sentinel can be asked, no failover is possible either, so the last used primary is still right.
  async #askOrRemember(): Promise<TcpAddress> {
    try {
      return await this.#ask();
    } catch (error) {
      if (this.#used === undefined || !(error instanceof NoSentinelError)) throw error;
      return this.#used;
    }
  }

  /**
   * The first answer of any sentinel, which is asked first from then on. Rejects with NoSentinelError if none can be asked, or with FindError
   * if one answers that it knows no such primary.
   */
  async #ask(): Promise<TcpAddress> {
    const asked = [...this.#sentinels];
    let answer: FindError | undefined;
    try {
      const { address, sentinel } = await firstAnswer(
        asked.map((one) => () => this.#askOne(one)),
        (error) => {
          if (error instanceof FindError && !(error instanceof NoSentinelError)) answer = error;
        },
      );
      this.#sentinels = [sentinel, ...this.#sentinels.filter((one) => one !== sentinel)];
      return address;
    } catch (error) {
      throw answer ?? error;
    }
  }

  async #askOne(sentinel: TcpAddress): Promise<{ readonly address: TcpAddress; readonly sentinel: TcpAddress }> {
    const { primaryName, sentinelAccess } = this.#target;
    const target = this.#targetOf(sentinel);
    let connection: RedisConnection | undefined;
    try {
      connection = await openConnection(target, () => undefined);
      const answers = Promise.all([
        connection.command("sentinel", ["get-master-addr-by-name", primaryName]),
        connection.command("sentinel", ["sentinels", primaryName]).catch(() => []),
      ]);
      const [place, others] = await withTimeLimit(sentinelAccess.connectTimeoutMs, answers);
      const address = addressOf(place);
      if (address === undefined)
        throw new FindError(`Sentinel at ${sentinel.host}:${sentinel.port} knows no primary called ${primaryName}`);
      this.#learn(others);
      return { address, sentinel };
    } catch (error) {
      if (error instanceof FindError) throw error;
      throw new NoSentinelError(describeTrouble(error, target), { cause: error });
    } finally {
      connection?.drop();
    }
  }

  #targetOf(sentinel: TcpAddress): RedisTarget {
    return { ...this.#target.sentinelAccess, address: sentinel, called: "Sentinel" };
  }

  #learn(others: unknown): void {
    if (!Array.isArray(others)) return;
    for (const other of others) {
      if (!Array.isArray(other) || this.#sentinels.length >= SENTINELS_MAX) continue;
      const texts = other.map(String);
      const address = addressOf([texts[texts.indexOf("ip") + 1], texts[texts.indexOf("port") + 1]]);
      if (address !== undefined && !this.#sentinels.some((known) => isSame(known, address)))
        this.#sentinels.push(address);
    }
  }

  #rotate(): void {
    const [first, ...rest] = this.#sentinels;
    if (first !== undefined) this.#sentinels = [...rest, first];
  }

  /** Subscribes to one sentinel, and to the next one when that subscription ends, for ever. */
  async #watch(index: number): Promise<void> {
    const sentinel = this.#sentinels[index % this.#sentinels.length];
    if (sentinel === undefined || this.#isClosed) return;
    try {
      const connection = await openConnection(this.#targetOf(sentinel), () => this.#watchLater(index + 1));
      if (this.#isClosed) {
        connection.drop();
        return;
      }
      this.#watched = connection;
      const subscribed = connection.subscribe(CHANNEL, (message) => this.#onMessage(message));
      await withTimeLimit(this.#target.sentinelAccess.connectTimeoutMs, subscribed);
      // A change before the subscription was not announced to us.
      await this.#compare();
    } catch {
      // `find` reports sentinels that don't answer, when the primary is needed.
      this.#watched?.drop();
      this.#watchLater(index + 1);
    }
  }

  #watchLater(index: number): void {
    if (this.#isClosed) return;
    clearTimeout(this.#watchTimer);
    this.#watchTimer = setTimeout(() => void this.#watch(index), WATCH_PAUSE_MS).unref();
  }

  // Fields of the message: name, old host, old port, new host, new port.
  #onMessage(message: string): void {
    const [name, , , host, port] = message.split(" ");
    const address = addressOf([host, port]);
    if (name !== this.#target.primaryName || address === undefined) return;
    this.#announced = address;
    clearTimeout(this.#announcedTimer);
    this.#announcedTimer = setTimeout(() => {
      this.#announced = undefined;
    }, ANNOUNCED_MS_MAX).unref();
    this.#onMoved?.(address);
  }

  async #compare(): Promise<void> {
    try {
      const address = await this.#ask();
      if (!this.#isClosed) this.#onMoved?.(address);
    } catch (error) {
      // No sentinel answers, so the present primary stays in use.
      if (!(error instanceof FindError)) throw error;
    }
  }
}

function addressOf(reply: unknown): TcpAddress | undefined {
  if (!Array.isArray(reply)) return undefined;
  const host = String(reply[0] ?? "");
  const port = Number(String(reply[1] ?? ""));
  return host === "" || !(port > 0 && port < 65_536) ? undefined : { kind: "tcp", host, port };
}

function isSame(one: TcpAddress, other: TcpAddress): boolean {
  return one.host === other.host && one.port === other.port;
}
