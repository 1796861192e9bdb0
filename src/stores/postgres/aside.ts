// Statements that are asked beside the takes, and wait for none of them: only over a connection that is free.

import type { Statement } from "./connect.ts";
import type { Link } from "./link.ts";

/** Asks for one text. Never rejects: undefined if there is no free connection, or if it failed. */
export type AskAside = (statement: Statement) => Promise<string | undefined>;

/** Asks over the link that is free at that moment. */
export function askOverFree(freeLink: () => Link | undefined): AskAside {
  return async (statement) => {
    try {
      const [row] = (await freeLink()?.use((connection) => connection.query(statement))) ?? [];
      return row?.[0] ?? undefined;
    } catch {
      // Conflicts and lost connections: the next time comes soon, and the takes report what lasts.
      return undefined;
    }
  };
}
