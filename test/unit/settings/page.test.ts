// docs/settings.md is what the code says.

import { expect, test } from "vitest";
import { settingsPage } from "../../support/settings-page.ts";

test("docs/settings.md is what the table of settings says", async () => {
  await expect(settingsPage()).toMatchFileSnapshot("../../../docs/settings.md");
});

test("every table row of the page has four cells", () => {
  const rows = settingsPage()
    .split("\n## Not supported")[0]
    ?.split("\n")
    .filter((line) => line.startsWith("| `"));
  expect(rows?.every((row) => row.replaceAll("\\|", "").split("|").length === 6)).toBe(true);
});
