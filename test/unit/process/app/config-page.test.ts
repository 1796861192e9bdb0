// What /config shows of the rules in force, and of a set that was refused.

import { expect, test } from "vitest";
import type { AppParts } from "../../../../src/process/app/app-parts.ts";
import { readConfig } from "../../../../src/process/app/config-page.ts";
import { readSettings } from "../../../../src/settings/settings.ts";
import { rulesFromYaml } from "../../../support/rules.ts";

test("shows the rules in force and the problems of the last load, also before the first one", async () => {
  const problem = { severity: "error", file: "edge.yaml", line: 3, column: 5, message: "unknown key" } as const;
  const current = rulesFromYaml({ "edge.yaml": "domain: edge" }, { version: 2, hash: "abc" });
  const lastError = { atUs: Date.UTC(2026, 0, 2) * 1_000, message: "1 problem", problems: [problem] };
  const status = () => ({ loadedAtUs: Date.UTC(2026, 0, 1) * 1_000, lastError });
  const entries = () => [
    { domain: "edge", hasRules: true, descriptors: 3, exampleKeys: ["plan", "weight"] },
    { domain: "egde", hasRules: false, descriptors: 2, exampleKeys: [] },
  ];
  const parts = { settings: readSettings({ PORT: "8079" }), calls: { domains: { entries } }, running: {} };
  const read = (reloader: object) => readConfig({ ...parts, reloader } as unknown as AppParts);
  expect(await read({ status: () => ({}) })).toMatchObject({ rules: { version: null, domains: [], last_error: null } });
  expect(await read({ current, status })).toMatchObject({
    rules: {
      version: 2,
      loaded_at: "2026-01-01T00:00:00.000Z",
      domains: [{ domain: "edge", files: ["edge.yaml"], limits: 0 }],
      unmatched_descriptors: [
        { domain: "edge", has_rules: true, descriptors: 3, example_keys: ["plan", "weight"] },
        { domain: "egde", has_rules: false, descriptors: 2 },
      ],
      last_error: { at: "2026-01-02T00:00:00.000Z", message: "1 problem", problems: [problem] },
    },
    settings: { PORT: "8079" },
  });
});
