// Writes docs/settings.md from the table of settings, so that the two can't differ (test/unit/settings/page.test.ts).

import { FOREIGN } from "../../src/process/settings/foreign-names.ts";
import type { Setting } from "../../src/process/settings/setting.ts";
import { SETTING_GROUPS } from "../../src/process/settings/table.ts";

const INTRODUCTION = `# Settings

<!-- Made from src/process/settings/table.ts; \`npx vitest run --project unit test/unit/settings -u\` writes it anew. -->

Headgate reads its settings from environment variables, once, at start. A value that cannot be used ends the start; the message
names all such values at once, with what was expected and what came. A variable that is set but empty counts as not set, and gives a
warning. So does a name that looks like a setting but is none. Names and meanings are those of envoyproxy/ratelimit (on this page:
the reference) if it has the setting.

- **boolean**: \`true\` or \`false\` (also \`1\`, \`t\`, \`0\`, \`f\`).
- **duration**: numbers with units, such as \`10s\`, \`150us\`, \`1h30m\` (ns, us, ms, s, m, h).
- Values marked **secret** are never printed, neither in the log nor in \`/config\`.
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

| variable | to know |
|---|---|
`;
  for (const [name, { note }] of FOREIGN) {
    table += `| \`${name}\` | ${cell(note)} |\n`;
  }
  return table;
}

/** Text as it stands in a cell of a Markdown table. */
export function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}
