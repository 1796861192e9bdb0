// `config_check` by its flags, and what both commands refuse. `client` is tried against a service in
// test/integration/reference-commands.test.ts.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runProgram } from "../../../support/run-program.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const root = temporaryFolder("headgate-config-check");

let directories = 0;
function directoryOf(files: Readonly<Record<string, string>>): string {
  const directory = join(root, `rules-${directories++}`);
  mkdirSync(directory);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
  return directory;
}

const GOOD = "domain: a\ndescriptors:\n  - { key: k, rate_limit: { unit: day, requests_per_unit: 1 } }\n";

describe("config_check", () => {
  test.each([
    { name: "good rules", files: { "a.yaml": GOOD }, flags: [], exitCode: 0 },
    { name: "no rules at all", files: {}, flags: [], exitCode: 0 },
    { name: "broken YAML", files: { "a.yaml": "domain: [" }, flags: [], exitCode: 1 },
    { name: "a bad file with another ending", files: { "a.yaml": GOOD, "b.txt": "just text" }, flags: [], exitCode: 1 },
    { name: "one domain twice", files: { "a.yaml": GOOD, "b.yaml": GOOD.replace("k", "j") }, flags: [], exitCode: 1 },
    {
      name: "one domain twice, merged",
      files: { "a.yaml": GOOD, "b.yaml": GOOD.replace("key: k", "key: j") },
      flags: ["-merge_domain_configs"],
      exitCode: 0,
    },
  ])("ends with $exitCode for $name", async ({ files, flags, exitCode }) => {
    const run = await runProgram(["config_check", "-config_dir", directoryOf(files), ...flags]);
    expect(run.exitCode).toBe(exitCode);
    expect(run.out).not.toBe("");
  });

  test.each([
    (path: string) => [`-config_dir=${path}`],
    (path: string) => [`--config_dir=${path}`],
    (path: string) => ["--config_dir", path],
    (path: string) => ["-config_dir", "elsewhere", "-config_dir", path],
    (path: string) => ["-merge_domain_configs", "-config_dir", path],
    (path: string) => ["--merge_domain_configs=true", "-config_dir", path],
  ])("takes flags as Go programs do: %s", async (flags) => {
    const path = directoryOf({ "a.yaml": GOOD });
    expect(await runProgram(["config_check", ...flags(path)])).toEqual(await runProgram(["check", path]));
  });
});

test.each([
  { args: ["config_check"], why: "required option '--config_dir <directory>' not specified" },
  { args: ["config_check", "-config_dir"], why: "argument missing" },
  { args: ["config_check", "-config_dir="], why: "Expected a directory." },
  { args: ["config_check", "-config_dir", "x", "-config-dir", "x"], why: "unknown option '-config-dir'" },
  { args: ["config_check", "-config_dir", "x", "y"], why: "too many arguments" },
  { args: ["config_check", "-config_dir", "x", "-merge_domain_configs=perhaps"], why: "Expected true or false." },
  { args: ["client", "-descriptors", "a=b"], why: "required option '--domain <name>' not specified" },
  { args: ["client", "-domain", "edge"], why: "required option '--descriptors <entries>' not specified" },
  { args: ["client", "-domain", "edge", "-descriptors", "=b"], why: "Expected key=value" },
])("wrong flags end with 2 and say which: $args", async ({ args, why }) => {
  const run = await runProgram(args);
  expect(run.exitCode).toBe(2);
  expect(run.err).toContain(why);
});
