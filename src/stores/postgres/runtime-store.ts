// Limits at run time in PostgreSQL (sql/runtime_limits.sql).

import { RUNTIME_LIMITS_AT_ONCE, type RuntimeStore, readHead, readKept, readWritten } from "../runtime-store.ts";
import type { PostgresAside } from "./aside.ts";
import { textArray } from "./postgres-batch.ts";

type Changes = Parameters<RuntimeStore["write"]>[0];

const KEPT = "key, at_us || ' ' || mark || ' ' || value";

/** The store. It has at most `limitsMax` limits, ended and unset ones included. */
export function postgresRuntimeStore({ ask, nowUs }: PostgresAside, limitsMax: number): RuntimeStore {
  const write = async (changes: Changes, ...repair: readonly (number | null)[]) => {
    const numbers = (of: (change: Changes[number]) => number | undefined) =>
      `{${changes.map((each) => of(each) ?? "NULL").join()}}`;
    const rows = await ask(
      "SELECT unnest(write_runtime_limits($1, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[]))",
      String(limitsMax),
      ...repair.map((number) => (number === null ? null : String(number))),
      textArray(changes.map(({ key }) => key)),
      numbers(({ expectedUs }) => expectedUs),
      numbers(({ atUs }) => atUs),
      numbers(({ mark }) => mark),
      textArray(changes.map(({ value }) => value)),
    );
    const [head = "", ...written] = rows.map(([text]) => text ?? "");
    return { head: readHead(head), written: changes.map(({ key }, i) => readWritten(written[i] ?? "", key)) };
  };
  const read = async (condition: string, ...values: readonly string[]) => {
    const rows = await ask(
      `SELECT ${KEPT}, version FROM runtime_limit WHERE prefix = $1 AND ${condition} LIMIT ${RUNTIME_LIMITS_AT_ONCE}`,
      ...values,
    );
    const last = rows.length < RUNTIME_LIMITS_AT_ONCE ? undefined : rows.at(-1);
    return { limits: rows.flatMap(([key, text]) => readKept(key ?? "", text ?? "")), last };
  };
  return {
    nowUs,
    async head() {
      const [row] = await ask("SELECT version || ' ' || mark FROM runtime_limit WHERE prefix = $1 AND key = ''");
      return readHead(row?.[0] ?? "");
    },
    async changes(after, upTo) {
      const between = "key <> '' AND version > $2::bigint AND version <= $3::bigint ORDER BY version";
      const { limits, last } = await read(between, String(after), String(upTo));
      return { limits, upTo: last === undefined ? upTo : Number(last[2]) };
    },
    async all(from) {
      const { limits, last } = await read("key > $2 ORDER BY key", from);
      return { limits, next: last?.[0] ?? undefined };
    },
    write: (changes) => write(changes, null, null, null),
    async repair({ version, digest: old }, digest) {
      await write([], version, old, digest);
    },
  };
}
