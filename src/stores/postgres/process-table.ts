// The table of processes that share the PostgreSQL, each with the server's time of its last report (sql/housekeeping.sql).

import type { ProcessPlace, ProcessRegister } from "../batching/process-count.ts";
import { storedKey } from "./batch.ts";
import type { AskBeside } from "./side-connection.ts";

/** Processes with the same prefix of keys count each other: with another prefix they share no bucket. Places are in the order of the ids. */
export class ProcessTable implements ProcessRegister {
  readonly #ask: AskBeside;
  readonly #prefix: string;

  constructor(ask: AskBeside, keyPrefix: string) {
    this.#ask = ask;
    this.#prefix = storedKey(keyPrefix);
  }

  async report(id: string, goneAfterMs: number): Promise<ProcessPlace | undefined> {
    const values = [this.#prefix, id, `${goneAfterMs} milliseconds`];
    const answer = await this.#ask({
      name: "beat",
      text: "SELECT array_to_string(beat($1, $2, $3::interval), ',')",
      values,
    });
    const [count, index, added] = answer?.split(",").map(Number) ?? [];
    return count === undefined || index === undefined ? undefined : { count, index, isNew: added === 1 };
  }

  async leave(id: string): Promise<void> {
    await this.#ask({ text: "DELETE FROM process WHERE process_id = $1", values: [`${this.#prefix}${id}`] });
  }
}
