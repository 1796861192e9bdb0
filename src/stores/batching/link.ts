// Keeps one connection to a server up: connects, tests the connection, reports when it is up or lost, and reconnects
// with growing pauses, without end. A subclass knows the server's protocol.

import { HUNG_UP } from "./connecting.ts";
import { RetryPause } from "./retry-pause.ts";

/** What a link hears, and reports. */
export interface LinkEvents {
  /** The connection is up and tested. */
  readonly onUp: () => void;
  /** The connection is lost: what was sent over it gets no answer. */
  readonly onLost: () => void;
}

/** Keeps one connection up until it is closed. */
export abstract class Link<C extends { drop(): void }> {
  readonly #events: LinkEvents;
  readonly #pause = new RetryPause();
  #connection: C | undefined;
  #trouble: string;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** `name` is the server's, as the beginning of sentences. */
  constructor(name: string, events: LinkEvents) {
    this.#events = events;
    this.#trouble = `${name} is not connected yet`;
  }

  /** The connection, if it is up and has passed its test. */
  get connection(): C | undefined {
    return this.#connection;
  }

  /** Why there is no connection; undefined while it is up. */
  get trouble(): string | undefined {
    return this.#connection === undefined ? this.#trouble : undefined;
  }

  /** The server's name, as the beginning of sentences. */
  abstract get name(): string;
  /** Connects. Call `onLost` once if the connection ends on its own. */
  protected abstract open(onLost: () => void): Promise<C>;
  /** Rejects if takes can't use the connection. */
  protected abstract test(connection: C): Promise<void>;
  /** The error of an attempt as a sentence without its full stop. */
  protected abstract describeAttempt(error: unknown): string;

  /** Begins to connect. Never throws; waits for a server that is away. */
  start(): void {
    void this.#attempt();
  }

  /** Drops the connection because of a trouble, which is a sentence, and opens a new one. */
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
    this.#trouble = `${this.name} is no longer used: the store is closed`;
  }

  /** Ends the pause before the next attempt, if there is one. */
  protected retryNow(): void {
    if (this.#timer === undefined || this.#isClosed) return;
    clearTimeout(this.#timer);
    void this.#attempt();
  }

  async #attempt(): Promise<void> {
    this.#timer = undefined;
    let connection: C | undefined;
    let isLost = false;
    try {
      connection = await this.open(() => {
        isLost = true;
        if (connection !== undefined && connection === this.#connection) this.#lose(`${this.name} ${HUNG_UP}`);
      });
      await this.test(connection);
      if (isLost) throw new Error("Connection is closed.");
      if (this.#isClosed) {
        connection.drop();
        return;
      }
      this.#connection = connection;
      this.#pause.reset();
      this.#events.onUp();
    } catch (error) {
      connection?.drop();
      if (!this.#isClosed) this.#trouble = this.describeAttempt(error);
      this.#retryLater();
    }
  }

  #lose(trouble: string): void {
    this.#connection = undefined;
    this.#trouble = trouble;
    this.#events.onLost();
    this.#retryLater();
  }

  #retryLater(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#attempt(), this.#pause.next());
  }
}
