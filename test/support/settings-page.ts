// Writes docs/settings.md from the table of settings, so that the two can't differ (test/unit/settings/page.test.ts).

import { namesOf, type Setting } from "../../src/settings/setting.ts";
import { SETTING_GROUPS } from "../../src/settings/table.ts";

const INTRODUCTION = `# Settings

<!-- Made from src/settings/table.ts; \`npx vitest run --project unit test/unit/settings -u\` writes it. -->

The environment variables that Headgate reads, once, at start. Unusable values stop the start, with an error that names all of them.
Empty and misspelled variables give a warning and have no effect. Names and meanings of envoyproxy/ratelimit's ("the reference")
settings stay; [what differs](migrating.md#every-setting).

- **boolean**: \`true\` or \`false\` (also \`1\`, \`t\`, \`0\`, \`f\`).
- **duration**: numbers with units, such as \`10s\`, \`150us\`, \`1h30m\` (ns, us, ms, s, m, h).
- An empty **default** means none.
- **secret**: never appears in the log or in \`/config\`.
- Certificates, keys and CAs are PEM files.
`;

/** The whole page, Markdown. */
export function settingsPage(): string {
  let page = INTRODUCTION;
  for (const [group, rows] of Object.entries(SETTING_GROUPS)) {
    page += `\n## ${group}\n\n| variable | type | default | meaning |\n|---|---|---|---|\n`;
    const names = new Map<string, string[]>();
    for (const row of Object.values(rows)) {
      const setting = row as unknown as Setting<unknown, unknown>;
      const cells = otherCells(setting);
      names.set(cells, [...(names.get(cells) ?? []), ...namesOf(setting).map((name) => `\`${name}\``)]);
    }
    for (const [cells, list] of names) page += `| ${list.join(", ")} ${cells}\n`;
  }
  return page;
}

/** All cells of a row but its name; settings that share them share a row. */
function otherCells(row: Setting<unknown, unknown>): string {
  const type = row.type.isSecret ? `${row.type.label}, **secret**` : row.type.label;
  const shown = defaultOf(row).replace(/^none$/, "");
  const help = row.otherName === undefined ? row.help : `${row.help} If both are set, the first counts.`;
  return `| ${cell(type)} | ${cell(shown)} | ${cell(help).replace(/docs\/([\w-]+\.md)/g, "[$1]($1)")} |`;
}

/** The default of a setting as the docs show it. */
export function defaultOf(row: Setting<unknown, unknown>): string {
  if (row.defaultShown !== undefined) return row.defaultShown;
  const text = row.default === undefined ? "" : row.type.show(row.default);
  return text === "" ? "none" : `\`${text}\``;
}

/** Text for a cell of a Markdown table. */
export function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}
