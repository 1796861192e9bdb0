// The table of processes that share the PostgreSQL, each with the server's time of its last report (sql/025_beat.sql).

import type { ProcessPlace } from "../batching/membership.ts";
import type { ProcessRegister } from "../batching/process-count.ts";
import type { AskBeside } from "./side-connection.ts";

/** Places are in the order of the ids. */
export class ProcessTable implements ProcessRegister {
  readonly #ask: AskBeside;

  constructor(ask: AskBeside) {
    this.#ask = ask;
  }

  async report(id: string, goneAfterMs: number): Promise<ProcessPlace | undefined> {
    const values = [id, `${goneAfterMs} milliseconds`];
    const answer = await this.#ask({
      name: "beat_v2",
      text: "SELECT array_to_string(beat_v2($1, $2::interval), ',')",
      values,
    });
    const [count, index, added] = answer?.split(",").map(Number) ?? [];
    return count === undefined || index === undefined ? undefined : { count, index, isNew: added === 1 };
  }

  async leave(id: string): Promise<void> {
    await this.#ask({ text: "DELETE FROM process WHERE process_id = $1", values: [id] });
  }
}
