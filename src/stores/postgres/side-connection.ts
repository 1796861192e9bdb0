// Statements beside the takes have their own connection, so that processes are counted and expired rows are deleted however busy
// the others are.

import { SilenceError, withTimeLimit } from "../batching/connecting.ts";
import type { ProcessRegister } from "../batching/process-count.ts";
import { storedKey } from "./batch.ts";
import type { Statement } from "./connect.ts";
import type { PostgresLink } from "./link.ts";

/** Asks for one text. Never rejects: undefined if there is no connection, or if it failed. */
export type AskBeside = (statement: Statement) => Promise<string | undefined>;

/** Sends statements over `link`, which is given up if it is silent for `silenceMs`. */
export function sideConnection(link: PostgresLink, silenceMs: number): AskBeside {
  return async (statement) => {
    try {
      const rows = link.connection && (await withTimeLimit(silenceMs, link.connection.query(statement)));
      return rows?.[0]?.[0] ?? undefined;
    } catch (error) {
      if (error instanceof SilenceError) link.reconnect(`${link.name} does not answer (${error.message})`);
      // A conflict or a lost connection: the statement comes again soon, and takes report trouble that lasts.
      return undefined;
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
