// Statements beside the takes have their own connection, so that processes are counted and expired rows are deleted however busy
// the others are. While this connection is lost, a free connection of the takes is used.

import { SilenceError, withTimeLimit } from "../batching/connecting.ts";
import type { ProcessRegister } from "../batching/process-count.ts";
import { storedKey } from "./batch.ts";
import type { Statement } from "./connect.ts";
import type { PostgresLink } from "./link.ts";

/** Asks for one text. Never rejects: undefined if there is no connection, or if it failed. */
export type AskBeside = (statement: Statement) => Promise<string | undefined>;

/** Most statements that wait for a connection. Others fail: each comes again by itself. */
const WAITING_MAX = 8;

/** Sends one statement after another. A connection that is silent for `silenceMs` is given up. */
export class SideConnection {
  readonly #link: PostgresLink;
  readonly #freeLink: () => PostgresLink | undefined;
  readonly #silenceMs: number;
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  constructor(link: PostgresLink, freeLink: () => PostgresLink | undefined, silenceMs: number) {
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
      if (error instanceof SilenceError) link.reconnect(`${link.name} does not answer (${error.message})`);
      // A conflict or a lost connection: the statement comes again soon, and takes report trouble that lasts.
      return undefined;
    }
  }
}

/**
 * The table of processes that share the PostgreSQL, each with the server's time of its last report (sql/housekeeping.sql). Processes with the same prefix of
 * keys count each other: with another prefix they share no bucket. Places are in the order of the ids.
 */
export function processTable(ask: AskBeside, keyPrefix: string): ProcessRegister {
  const prefix = storedKey(keyPrefix);
  return {
    async report(id, goneAfterMs) {
      const text = "SELECT array_to_string(beat($1, $2, $3::interval), ',')";
      const answer = await ask({ name: "beat", text, values: [prefix, id, `${goneAfterMs} milliseconds`] });
      const [count, index, added] = answer?.split(",").map(Number) ?? [];
      return count === undefined || index === undefined ? undefined : { count, index, isNew: added === 1 };
    },
    async leave(id) {
      await ask({ text: "DELETE FROM process WHERE process_id = $1", values: [`${prefix}${id}`] });
    },
  };
}
