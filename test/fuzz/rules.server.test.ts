// Rule files of malice before a running service: each is refused with a sentence or loads, the rules before it stay in force,
// and calls are answered while it is read.

import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { keptInputs } from "../support/kept-inputs.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const RULES = "domain: edge\ndescriptors: [{ key: k, rate_limit: { requests_per_unit: 1000000, unit: day } }]\n";
const MIB = 1_048_576;

let app: TestApp;
beforeAll(async () => {
  app = await startTestApp(RULES);
});

/** Adds a file next to the good one, has it loaded, and takes it away again. True if it was refused. */
async function loadBeside(bytes: string | Buffer): Promise<boolean> {
  await app.writeRules({ "hostile.yaml": bytes as string });
  await app.app.reload();
  const config = (await (await app.http("/config")).json()) as {
    rules: { last_error: { problems: unknown[] } | null };
  };
  expect((await app.hit({ k: "v" })).statuses[0]?.current_limit).toMatchObject({ requests_per_unit: 1_000_000 });
  expect(await (await app.http("/metrics")).text()).toMatch(/^headgate_internal_errors_total 0$/m);
  await rm(join(app.rulesDir, "hostile.yaml"));
  expect(await readdir(app.rulesDir)).toEqual(["rules.yaml"]);
  await app.app.reload();
  return config.rules.last_error !== null;
}

// Promise(rules): A hostile rule file leaves the rules in force.
test.each(keptInputs("rules"))("$name leaves the rules in force", async ({ bytes }) => {
  await loadBeside(bytes);
});

test.each([
  { name: "beyond the bound on files", text: () => `domain: d # ${"x".repeat(17 * MIB)}\n` },
  { name: "of brackets", text: () => `domain: ${"[".repeat(MIB / 8)}` },
  { name: "of a million aliases", text: () => `domain: d\na: &a [x]\nb: [${"*a,".repeat(MIB / 8)}]\n` },
])(
  "a file $name is refused, and calls go on meanwhile",
  async ({ text }) => {
    expect(await loadBeside(text())).toBe(true);
  },
  60_000,
);
