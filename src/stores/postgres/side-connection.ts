// Statements that are asked beside the takes, over a connection of their own: however busy the others are, processes are
// counted and what means nothing any more is dropped. While it is not there, one that is free of takes will do.

import { SilenceError, withTimeLimit } from "../batching/time-limit.ts";
import type { Statement } from "./connect.ts";
import type { Link } from "./link.ts";

/** Asks for one text. Never rejects: undefined if there is no connection, or if it failed. */
export type AskBeside = (statement: Statement) => Promise<string | undefined>;

/** More wait for no connection: each comes again by itself. */
const WAITING_MAX = 8;

/** Asks one statement after another. A connection that is silent for `silenceMs` is given up. */
export class SideConnection {
  readonly #link: Link;
  readonly #freeLink: () => Link | undefined;
  readonly #silenceMs: number;
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  constructor(link: Link, freeLink: () => Link | undefined, silenceMs: number) {
    this.#link = link;
    this.#freeLink = freeLink;
    this.#silenceMs = silenceMs;
  }

  readonly ask: AskBeside = async (statement) => {
    if (this.#waiting >= WAITING_MAX) return undefined;
    this.#waiting++;
    const answer = this.#last.then(() => this.#askNow(statement));
    this.#last = answer;
    try {
      return await answer;
    } finally {
      this.#waiting--;
    }
  };

  async #askNow(statement: Statement): Promise<string | undefined> {
    const link = this.#link.isFree ? this.#link : this.#freeLink();
    if (link === undefined) return undefined;
    try {
      const rows = link.use((connection) => withTimeLimit(this.#silenceMs, connection.query(statement)));
      return (await rows)[0]?.[0] ?? undefined;
    } catch (error) {
      if (error instanceof SilenceError) link.reconnect(error.message);
      // Conflicts and lost connections: the next time comes soon, and the takes report what lasts.
      return undefined;
    }
  }
}
