// Finds the primary that sentinels know by a name, and learns of its changes from them. Sentinels are asked one after
// another, the next one as soon as one is slow; sentinels that they name are asked too. The link checks whether the
// found server is a primary.

import type { RedisAccess, RedisAddress, TcpAddress } from "../../settings/store-address.ts";
import { withTimeLimit } from "../batching/connecting.ts";
import { Link, type LinkEvents } from "../batching/link.ts";
import { openConnection, type RedisConnection, type RedisTarget } from "./connect.ts";
import { describeTrouble, FindError, nameOfTarget } from "./connect-trouble.ts";
import { firstAnswer } from "./first-answer.ts";
import type { ServerFinder } from "./redis-link.ts";

/** Most sentinels, first of the settings, then learned ones. */
const SENTINELS_MAX = 32;
/** Interval of questions: a change without a message is noticed after this long. */
const ASK_AGAIN_MS = 3_000;
/**
 * How long an address from a message counts, whatever sentinels say: they notice a promotion up to 1.1 s after they
 * ordered it.
 */
const ANNOUNCED_MS_MAX = 2_000;
/** Every sentinel announces the new primary: `name old-host old-port host port`. */
const SWITCHED = "+switch-master";
/**
 * The sentinel in charge has just ordered a replica to be primary: `slave id host port @ name old-host old-port`.
 * Payments to the old primary are lost from then on, and SWITCHED is a second away.
 */
const PROMOTING = "+failover-state-wait-promotion";

/** The primary's name, how to reach it, and the sentinels to ask. */
export interface SentinelTarget extends RedisAccess {
  readonly primaryName: string;
  readonly sentinels: readonly TcpAddress[];
  /** How to reach the sentinels. */
  readonly sentinelAccess: RedisAccess;
}

/** A sentinel can't be asked, which says nothing about the primary. */
class NoSentinelError extends FindError {}

/** Asks sentinels for the primary's address. */
export class SentinelFinder implements ServerFinder {
  readonly wantsPrimary = true;
  readonly name: string;
  readonly #target: SentinelTarget;
  /** In the order in which they are asked. */
  #sentinels: TcpAddress[];
  /** The primary's address from a message, for ANNOUNCED_MS_MAX. */
  #announced: TcpAddress | undefined;
  #announcedTimer: NodeJS.Timeout | undefined;
  /** The server found last, and the server used last. */
  #found: TcpAddress | undefined;
  #used: TcpAddress | undefined;
  readonly #watches: SentinelWatch[] = [];
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
    for (const sentinel of this.#sentinels) this.#watch(sentinel);
    this.#askTimer = setInterval(() => void this.#compare(), ASK_AGAIN_MS).unref();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#announcedTimer);
    clearInterval(this.#askTimer);
    for (const watch of this.#watches) watch.close();
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
   * The first answer of any sentinel, which is asked first from then on. Rejects with NoSentinelError if none can be
   * asked, or with FindError if one answers that it knows no such primary.
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
      if (address === undefined || this.#sentinels.some((known) => isSame(known, address))) continue;
      this.#sentinels.push(address);
      if (this.#onMoved !== undefined) this.#watch(address);
    }
  }

  #rotate(): void {
    const [first, ...rest] = this.#sentinels;
    if (first !== undefined) this.#sentinels = [...rest, first];
  }

  /** Subscribes to a sentinel: only the sentinel in charge of a failover announces the promotion. */
  #watch(sentinel: TcpAddress): void {
    if (this.#isClosed) return;
    // A change before the subscription was not announced to us.
    const events = { onUp: () => void this.#compare(), onLost: () => undefined };
    const watch = new SentinelWatch(this.#targetOf(sentinel), events, (channel, message) => {
      const fields = message.split(" ");
      const [name, host, port] =
        channel === SWITCHED ? [fields[0], fields[3], fields[4]] : [fields[5], fields[2], fields[3]];
      if (name === this.#target.primaryName) this.#onAnnounced(addressOf([host, port]));
    });
    this.#watches.push(watch);
    watch.start();
  }

  #onAnnounced(address: TcpAddress | undefined): void {
    if (address === undefined) return;
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
      // What was announced meanwhile is newer than the answer.
      if (!this.#isClosed && this.#announced === undefined) this.#onMoved?.(address);
    } catch (error) {
      // No sentinel answers, so the present primary stays in use.
      if (!(error instanceof FindError)) throw error;
    }
  }
}

/**
 * A subscription to one sentinel. Nobody reads its trouble: `find` reports sentinels that don't answer, when the
 * primary is needed.
 */
class SentinelWatch extends Link<RedisConnection> {
  readonly #target: RedisTarget;
  readonly #onMessage: (channel: string, message: string) => void;

  constructor(target: RedisTarget, events: LinkEvents, onMessage: (channel: string, message: string) => void) {
    super(nameOfTarget(target), events);
    this.#target = target;
    this.#onMessage = onMessage;
  }

  get name(): string {
    return nameOfTarget(this.#target);
  }

  protected open(onLost: () => void): Promise<RedisConnection> {
    return openConnection(this.#target, onLost);
  }

  protected test(connection: RedisConnection): Promise<void> {
    return withTimeLimit(this.#target.connectTimeoutMs, connection.subscribe([SWITCHED, PROMOTING], this.#onMessage));
  }

  protected describeAttempt(error: unknown): string {
    return describeTrouble(error, this.#target);
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
