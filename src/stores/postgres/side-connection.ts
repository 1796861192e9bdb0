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

/** Sends one statement after another, over `link`, or else over `freeLink`. A connection that is silent for `silenceMs` is given up. */
export function sideConnection(
  link: PostgresLink,
  freeLink: () => PostgresLink | undefined,
  silenceMs: number,
): AskBeside {
  let last: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  const askNow: AskBeside = async (statement) => {
    const free = link.isFree ? link : freeLink();
    if (free === undefined) return undefined;
    try {
      const rows = free.use((connection) => withTimeLimit(silenceMs, connection.query(statement)));
      return (await rows)[0]?.[0] ?? undefined;
    } catch (error) {
      if (error instanceof SilenceError) free.reconnect(`${free.name} does not answer (${error.message})`);
      // A conflict or a lost connection: the statement comes again soon, and takes report trouble that lasts.
      return undefined;
    }
  };
  return async (statement) => {
    if (waiting >= WAITING_MAX) return undefined;
    waiting++;
    const answer = last.then(() => askNow(statement));
    last = answer;
    try {
      return await answer;
    } finally {
      waiting--;
    }
  };
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
