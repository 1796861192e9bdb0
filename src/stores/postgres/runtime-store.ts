// Limits at run time in PostgreSQL (sql/runtime_limits.sql), over the connection that carries no takes.

import { randomUUID } from "node:crypto";
import type { Clock } from "../../engine/base/clock.ts";
import { StoreError } from "../../engine/base/errors.ts";
import { withTimeLimit } from "../batching/connecting.ts";
import type { ServerTime } from "../batching/server-time.ts";
import {
  headText,
  processText,
  RUNTIME_EVENTS_MAX,
  RUNTIME_GONE_MS,
  type RuntimeStore,
  type RuntimeWrite,
  readEvent,
  readHead,
  readKept,
  readProcess,
  readWritten,
} from "../runtime-store.ts";
import type { PostgresTarget } from "../store-address.ts";
import { storedKey, textArray } from "./batch.ts";
import type { Rows } from "./connect.ts";
import { describeTrouble } from "./connect-trouble.ts";
import type { PostgresLink } from "./link.ts";
import { isWorthRepeating } from "./refusals.ts";

/** Limits read by one statement. */
const ROWS_MAX = 1_000;
/** How often a statement is sent that conflicts with another. */
const ATTEMPTS_MAX = 10;
const GONE = `seen_at < clock_timestamp() - interval '${RUNTIME_GONE_MS} milliseconds'`;

interface RuntimeStoreOptions {
  readonly link: PostgresLink;
  readonly target: PostgresTarget;
  readonly silenceMs: number;
  readonly keyPrefix: string;
  /** Most limits, with ended and unset ones. */
  readonly limitsMax: number;
  readonly clock: Clock;
  readonly serverTime: ServerTime;
}

/** The store. */
export function postgresRuntimeStore(options: RuntimeStoreOptions): RuntimeStore {
  const { link, silenceMs, limitsMax, clock, serverTime } = options;
  const prefix = storedKey(options.keyPrefix);
  const ask = async (text: string, ...values: readonly (string | null)[]): Promise<Rows> => {
    for (let attempt = 1; ; attempt++) {
      const { connection } = link;
      if (connection === undefined) throw new StoreError("STORE_UNREACHABLE", `${link.name} can't be reached`);
      try {
        return await withTimeLimit(silenceMs, connection.query({ text, values: [prefix, ...values] }));
      } catch (error) {
        if (isWorthRepeating(error) && attempt < ATTEMPTS_MAX) continue;
        throw new StoreError("STORE_COMMAND", describeTrouble(error, options.target), error);
      }
    }
  };
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
    async beat(own) {
      let isNew = false;
      if (own !== undefined) {
        const text = `INSERT INTO runtime_process VALUES ($1, $2, $3, clock_timestamp())
          ON CONFLICT (prefix, id) DO UPDATE SET report = excluded.report, seen_at = excluded.seen_at
          RETURNING (xmax = 0)::int`;
        isNew = (await ask(text, own.id, processText(own)))[0]?.[0] === "1";
        await ask(`DELETE FROM runtime_process WHERE prefix = $1 AND ${GONE}`);
      }
      const rows = await ask(`SELECT id, report FROM runtime_process WHERE prefix = $1 AND NOT ${GONE}`);
      return { all: rows.map(([id, report]) => readProcess(id ?? "", report ?? "")), isNew };
    },
    async publish(id, report) {
      await ask("UPDATE runtime_process SET published = $3 WHERE prefix = $1 AND id = $2", id, report);
    },
    async published() {
      const rows = await ask(
        `SELECT published FROM runtime_process WHERE prefix = $1 AND published IS NOT NULL AND NOT ${GONE}`,
      );
      return rows.map(([report]) => report ?? "");
    },
    async leave(id) {
      await ask("DELETE FROM runtime_process WHERE prefix = $1 AND id = $2", id);
    },
  };
}
