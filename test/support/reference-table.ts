// Writes the table of docs/migrating.md: every variable of envoyproxy/ratelimit and what becomes of it here
// (test/unit/settings/reference-table.test.ts). The names with their defaults come from the caller.

import { FOREIGN } from "../../src/settings/foreign-names.ts";
import { namesOf, type Setting } from "../../src/settings/setting.ts";
import { SETTINGS } from "../../src/settings/table.ts";
import { cell, defaultOf } from "./settings-page.ts";

/** What to know of settings that are honoured, beyond their row in docs/settings.md. */
const REMARKS: ReadonlyMap<string, string> = new Map([
  ["BACKEND_TYPE", "`memcache` is rejected"],
  ["LOCAL_CACHE_SIZE_IN_BYTES", "only under COMPATIBILITY_MODE; otherwise DENIALS_MAX"],
  ["REDIS_PERSECOND_TIMEOUT", "connecting only; STORE_PATIENCE bounds calls"],
  ["REDIS_TIMEOUT", "connecting only; STORE_PATIENCE bounds calls"],
]);

/** Markdown for all of `reference`, a map from the name of a variable to its default there ("" is none): a row for each fate, none for
 * those that need no word. */
export function referenceTable(reference: ReadonlyMap<string, string>): string {
  const read = new Map<string, string[]>();
  const unread = new Map<string, string[]>();
  for (const [name, there] of reference) {
    const note = FOREIGN.get(name)?.note;
    const fate = note ?? fateOf(name, there);
    if (fate === "") continue;
    const cells = note ?? `${there === "" ? "none" : `\`${there}\``} | ${cell(fate)}`;
    const rows = note === undefined ? read : unread;
    rows.set(cells, [...(rows.get(cells) ?? []), `\`${name}\``]);
  }
  return `| variable | default there | here |\n|---|---|---|\n${rowsOf(read)}
These are not read, and give a warning at start:\n\n| variable | why |\n|---|---|\n${rowsOf(unread)}`;
}

function rowsOf(names: ReadonlyMap<string, readonly string[]>): string {
  return [...names].map(([cells, list]) => `| ${list.join(", ")} | ${cells} |\n`).join("");
}

/** What becomes of a variable that is read; "": the same as there. */
function fateOf(name: string, there: string): string {
  const rows = Object.values(SETTINGS) as unknown as readonly Setting<unknown, unknown>[];
  const row = rows.find((one) => namesOf(one).includes(name));
  if (row === undefined) return "unknown";
  return [defaultNote(row, there), REMARKS.get(name)].filter((part) => part !== undefined).join("; ");
}

function defaultNote(row: Setting<unknown, unknown>, there: string): string | undefined {
  if (row.defaultShown === undefined) {
    const here = row.default === undefined ? "" : row.type.show(row.default);
    const asHere = there === "" ? undefined : row.type.parse(there);
    if (here === (asHere === undefined ? there : row.type.show(asHere))) return undefined;
  }
  return defaultOf(row);
}
