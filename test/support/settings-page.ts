// Writes docs/settings.md from the table of settings, so that the two can't differ (test/unit/settings/page.test.ts).

import { FOREIGN } from "../../src/process/settings/foreign-names.ts";
import type { Setting } from "../../src/process/settings/setting.ts";
import { SETTING_GROUPS } from "../../src/process/settings/table.ts";

const INTRODUCTION = `# Settings

<!-- Made from src/process/settings/table.ts; \`npx vitest run --project unit test/unit/settings -u\` writes it. -->

Headgate reads environment variables once, at start. It refuses to start with unusable values, and names all of them with what it
expected and what came. Empty variables count as not set; they and names that look like settings but are not give a warning. Settings that
envoyproxy/ratelimit ("the reference") has keep their names and meanings.

- **boolean**: \`true\` or \`false\` (also \`1\`, \`t\`, \`0\`, \`f\`).
- **duration**: numbers with units, such as \`10s\`, \`150us\`, \`1h30m\` (ns, us, ms, s, m, h).
- Values marked **secret** never appear in the log or in \`/config\`.
`;

/** The whole page, Markdown. */
export function settingsPage(): string {
  let page = INTRODUCTION;
  for (const [group, rows] of Object.entries(SETTING_GROUPS)) {
    page += `\n## ${group}\n\n| variable | type | default | meaning |\n|---|---|---|---|\n`;
    for (const row of Object.values(rows)) page += tableRow(row as unknown as Setting<unknown, unknown>);
  }
  return page + foreignTable();
}

function tableRow(row: Setting<unknown, unknown>): string {
  const type = row.type.isSecret ? `${row.type.label}, **secret**` : row.type.label;
  return `| \`${row.name}\` | ${cell(type)} | ${cell(defaultOf(row))} | ${cell(row.help)} |\n`;
}

/** The default of a setting as the docs show it. */
export function defaultOf(row: Setting<unknown, unknown>): string {
  if (row.defaultShown !== undefined) return row.defaultShown;
  const text = row.default === undefined ? "" : row.type.show(row.default);
  return text === "" ? "none" : `\`${text}\``;
}

function foreignTable(): string {
  let table = `
## Not supported

These variables of envoyproxy/ratelimit are not read. Setting one gives a warning at start.

| variables | why |
|---|---|
`;
  const names = new Map<string, string[]>();
  for (const [name, { note }] of FOREIGN) names.set(note, [...(names.get(note) ?? []), `\`${name}\``]);
  for (const [note, list] of names) table += `| ${list.join(", ")} | ${cell(note)} |\n`;
  return table;
}

/** Text for a cell of a Markdown table. */
export function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}
