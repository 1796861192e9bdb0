// Every variable of envoyproxy/ratelimit is honoured, or named at start with what to use instead; docs/migrating.md says which.

import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { ConfigError } from "../../../src/base/errors.ts";
import { FOREIGN } from "../../../src/settings/foreign-names.ts";
import { readSettings, settingNames, tableRows } from "../../../src/settings/settings.ts";
import { referenceTable } from "../../support/reference-table.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const DOC = resolve(ROOT, "docs/migrating.md");
const reference = new Map<string, string>(
  Object.entries(JSON.parse(readFileSync(resolve(ROOT, "test/fixtures/reference-settings.json"), "utf8"))),
);
const known = new Set(settingNames());

/** What the start says of this environment, warnings and mistakes alike. */
function linesOf(env: Readonly<Record<string, string>>): readonly string[] {
  try {
    return readSettings(env).warnings;
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

describe("the 116 variables of the reference", () => {
  // Promise(compatibility): Every setting of envoyproxy/ratelimit is read, or named at start.
  test.each([...reference.keys()])("%s is a setting or is named at start, and not both", (name) => {
    expect([known.has(name), FOREIGN.has(name)].filter(Boolean)).toHaveLength(1);
  });

  test.each([...reference.keys()].filter((name) => !known.has(name)))(
    "%s is named at start with what to use instead",
    (name) => {
      const lines = linesOf({ [name]: "something-else" });
      expect(lines).toEqual([expect.stringMatching(new RegExp(`^${name}: not supported; \\w.{10,}`))]);
    },
  );

  test("all at their defaults there are no mistake", () => {
    const env = Object.fromEntries([...reference].filter(([, there]) => there !== ""));
    expect(() => readSettings({ COMPATIBILITY_MODE: "true", ...env })).not.toThrow();
  });

  test("are all of them, and every variable that is said to be foreign is one of them", () => {
    expect(reference.size).toBe(116);
    expect([...FOREIGN.keys()].filter((name) => !reference.has(name))).toEqual([]);
  });
});

test("every setting is read by the service", () => {
  const source = readdirSync(resolve(ROOT, "src"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !file.endsWith("-table.ts"))
    .map((file) => readFileSync(resolve(ROOT, "src", file), "utf8"))
    .join("\n");
  // Settings of one of two Redis deployments are read by the end of their names.
  const isRead = (field: string) =>
    new RegExp(`\\b${field}\\b`).test(source) ||
    source.includes(`\`\${prefix}${field.replace(/^redis(?:PerSecond)?/, "")}\``);
  const unread = tableRows().filter(([field]) => !isRead(field));
  expect(unread.map(([, setting]) => setting.name)).toEqual([]);
});

test("docs/migrating.md has the table as the code has it", async () => {
  const page = readFileSync(DOC, "utf8");
  const [before = "", rest = ""] = page.split("<!-- settings begin -->");
  const [, after = ""] = rest.split("<!-- settings end -->");
  const written = `${before}<!-- settings begin -->\n\n${referenceTable(reference)}\n<!-- settings end -->${after}`;
  await expect(written).toMatchFileSnapshot(DOC);
  expect(after).not.toBe("");
});
