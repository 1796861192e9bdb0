// The register of processes in PostgreSQL (sql/processes.sql).

import {
  PROCESS_GONE_MS,
  type ProcessRegister,
  processText,
  REPORT_BYTES_MAX,
  readProcess,
} from "../process-register.ts";
import type { PostgresAside } from "./aside.ts";

// A time that the server's clock was set back from would keep its entry for ever.
const LONG = `interval '${PROCESS_GONE_MS} milliseconds'`;
const GONE = `seen_at NOT BETWEEN clock_timestamp() - ${LONG} AND clock_timestamp() + ${LONG}`;

/** The register. */
export function postgresProcessRegister({ ask }: PostgresAside): ProcessRegister {
  return {
    async beat(own) {
      let isNew = false;
      if (own !== undefined) {
        const text = `INSERT INTO runtime_process VALUES ($1, $2, $3, clock_timestamp())
          ON CONFLICT (prefix, id) DO UPDATE SET report = excluded.report, seen_at = excluded.seen_at
          RETURNING (xmax = 0)::int`;
        isNew = (await ask(text, own.id, processText(own)))[0]?.[0] === "1";
        await ask(`DELETE FROM runtime_process WHERE prefix = $1 AND ${GONE}`);
      }
      const rows = await ask(`SELECT id, report FROM runtime_process WHERE prefix = $1 AND NOT (${GONE})`);
      return { all: rows.map(([id, report]) => readProcess(id ?? "", report ?? "")), isNew };
    },
    async publish(id, report) {
      await ask("UPDATE runtime_process SET published = $3 WHERE prefix = $1 AND id = $2", id, report);
    },
    async published() {
      const rows = await ask(
        `SELECT published FROM runtime_process WHERE prefix = $1 AND octet_length(published) <= ${REPORT_BYTES_MAX} AND NOT (${GONE})`,
      );
      return rows.map(([report]) => report ?? "");
    },
    async leave(id) {
      await ask("DELETE FROM runtime_process WHERE prefix = $1 AND id = $2", id);
    },
  };
}
