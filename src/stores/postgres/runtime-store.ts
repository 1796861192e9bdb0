// Limits at run time in PostgreSQL (sql/runtime_limits.sql), over the connection that carries no takes.

import { randomUUID } from "node:crypto";
import type { Clock } from "../../engine/base/clock.ts";
import type { ServerTime } from "../batching/server-time.ts";
import {
  headText,
  RUNTIME_EVENTS_MAX,
  type RuntimeStore,
  type RuntimeWrite,
  readEvent,
  readHead,
  readKept,
  readWritten,
} from "../runtime-store.ts";
import { type AsideOptions, openAside } from "./aside.ts";
import { textArray } from "./batch.ts";
import { postgresProcessRegister } from "./process-register.ts";

/** Limits read by one statement. */
const ROWS_MAX = 1_000;
interface RuntimeStoreOptions extends AsideOptions {
  /** Most limits, with ended and unset ones. */
  readonly limitsMax: number;
  readonly clock: Clock;
  readonly serverTime: ServerTime;
}

/** The store. */
export function postgresRuntimeStore(options: RuntimeStoreOptions): RuntimeStore {
  const { limitsMax, clock, serverTime } = options;
  const ask = openAside(options);
  const write = async (changes: readonly RuntimeWrite[], lostHead: string | null = null) => {
    const numbers = (of: (change: RuntimeWrite) => number | undefined) =>
      `{${changes.map((each) => of(each) ?? "NULL").join()}}`;
    const rows = await ask(
      "SELECT unnest(write_runtime_limits($1, $2, $3::bigint, $4::bigint, $5, $6::text[], $7::text[], $8::bigint[], $9::bigint[]))",
      randomUUID(),
      String(limitsMax),
      String(RUNTIME_EVENTS_MAX),
      lostHead,
      textArray(changes.map(({ key }) => key)),
      textArray(changes.map(({ value }) => value)),
      numbers(({ expectedUs }) => expectedUs),
      numbers(({ atUs }) => atUs),
    );
    const [head = "", ...texts] = rows.map(([text]) => text ?? "");
    return {
      head: readHead(head),
      written: changes.map(({ key, value }, i) => readWritten(texts[i] ?? "", key, value)),
    };
  };
  const events = async (condition: string, ...values: readonly string[]) => {
    const rows = await ask(
      `SELECT version, at_us, key, value, before FROM runtime_event WHERE prefix = $1 AND ${condition}`,
      ...values,
    );
    return rows.map((row) => readEvent(row.join("\n")));
  };
  return {
    ...postgresProcessRegister(ask),
    nowUs: () => serverTime.estimateUs(clock.nowUs()),
    async head() {
      const text = "SELECT concat_ws(' ', epoch, version, count, at_us) FROM runtime_head WHERE prefix = $1";
      const [row] = await ask(text);
      return readHead(row?.[0] ?? "");
    },
    async changesAfter(version, head) {
      if (head.version - version > RUNTIME_EVENTS_MAX) return undefined;
      const found = await events("version > $2::bigint ORDER BY version", String(version));
      return found.length < head.version - version ? undefined : found.map(({ kept }) => kept);
    },
    async *all() {
      let last = "";
      for (;;) {
        const text =
          "SELECT key, at_us || ' ' || value FROM runtime_limit WHERE prefix = $1 AND key > $2 ORDER BY key LIMIT $3::int";
        const rows = await ask(text, last, String(ROWS_MAX));
        yield rows.flatMap(([key, kept]) => readKept([key ?? "", kept ?? ""]));
        if (rows.length < ROWS_MAX) return;
        last = rows.at(-1)?.[0] ?? "";
      }
    },
    write: (changes) => write(changes),
    async renew(head) {
      await write([], headText(head));
    },
    history: (key, countMax) => events("key = $2 ORDER BY version DESC LIMIT $3::int", key, String(countMax)),
  };
}
