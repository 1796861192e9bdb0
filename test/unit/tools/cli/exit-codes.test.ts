// What commands end with if files, settings or addresses can't be used: the documented code and a sentence, never a stack. A stack
// would end the process with 1, which means that too many calls are refused, that a case fails, or that a call is over limit.

import { chmodSync, mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { ConfigError } from "../../../../src/base/errors.ts";
import { boundByPermissions } from "../../../support/bound-by-permissions.ts";
import { type ProgramRun, runProgram } from "../../../support/run-program.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const folder = temporaryFolder("headgate-exit-codes");
const path = (name: string) => join(folder, name);
const RULES = "domain: d\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 1 } }]\n";
const CALL = `{"at":"2026-01-01T00:00:00.000000Z","domain":"d","descriptors":[{"entries":[{"key":"a","value":"b"}]}],"code":"OK"}\n`;
const CASES = "domain: d\ncases: [{ name: one, steps: [{ call: a=b, expect: OK }] }]\n";
/** More than Node reads at once. */
const BIG_BYTES = 3 * 2 ** 30;

const rules = path("rules.yaml");
const calls = path("calls.jsonl");
const cases = path("cases.yaml");
const NOWHERE = "127.0.0.1:1";
/** How Node's sentences begin. */
const NODES_OWN = /\bE[A-Z]{3,}: /;

/** Commands with a path to rules, and the code of those that can't be read. */
const RULES_READERS: readonly [what: string, args: (file: string) => readonly string[], code: number][] = [
  ["explain", (file) => ["explain", "-d", "d", "-r", file, "a=b"], 2],
  ["explain --require-match", (file) => ["explain", "-d", "d", "-r", file, "--require-match", "a=b"], 2],
  ["simulate", (file) => ["simulate", "-r", file, calls], 2],
  ["simulate --against", (file) => ["simulate", "-r", rules, "--against", file, calls], 2],
  ["test --rules", (file) => ["test", "-r", file, cases], 2],
  ["check", (file) => ["check", file], 1],
  ["check --json", (file) => ["check", "--json", file], 1],
  ["config_check", (file) => ["config_check", "-config_dir", file], 1],
];

/** Commands with a path to calls or cases. All end with 2. */
const READERS: readonly [what: string, args: (file: string) => readonly string[]][] = [
  ["simulate", (file) => ["simulate", "-r", rules, file]],
  ["suggest", (file) => ["suggest", file]],
  ["mirror replay", (file) => ["mirror", "replay", file, "--target", NOWHERE]],
  ["test", (file) => ["test", file]],
];

/** Commands with a path to a token. All end with 2. */
const TOKEN_READERS: readonly [what: string, args: (file: string) => readonly string[]][] = [
  ["explain", (file) => ["explain", "-d", "d", "-s", NOWHERE, "--token-file", file, "a=b"]],
  ["buckets", (file) => ["buckets", "peek", "-d", "d", "-s", NOWHERE, "--token-file", file, "a=b"]],
  ["top", (file) => ["top", "-s", NOWHERE, "--token-file", file]],
];

beforeAll(async () => {
  chmodSync(folder, 0o755);
  writeFileSync(rules, RULES);
  writeFileSync(calls, CALL);
  writeFileSync(cases, `rules: rules.yaml\n${CASES}`);
  mkdirSync(path("folder"));
  // A hole: it takes no room on the disk.
  writeFileSync(path("big"), "");
  truncateSync(path("big"), BIG_BYTES);
  writeFileSync(path("locked"), RULES);
  chmodSync(path("locked"), 0);
  mkdirSync(path("beside-locked"));
  writeFileSync(path("beside-locked/cases.yaml"), `rules: ../rules.yaml\n${CASES}`);
  mkdirSync(path("beside-locked/locked"), 0);
  for (const name of ["big", "locked"]) writeFileSync(path(`rules-${name}.yaml`), `rules: ${name}\n${CASES}`);
  // Commands load their modules when they first run, and nobody may not read them.
  for (const [, args] of [...RULES_READERS, ...READERS, ...TOKEN_READERS]) await ended(args(path("none")));
});

/** As src/main.ts ends the process: a ConfigError is a message and 1. What else is thrown would be a stack, and fails the test. */
async function ended(args: readonly string[], env: Record<string, string> = {}): Promise<ProgramRun> {
  try {
    return await runProgram(args, { env });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { out: "", err: error.message, exitCode: 1 };
  }
}

/** Runs the command as somebody who may not read the file named `locked`. */
function endedAt(name: string, args: readonly string[]): Promise<ProgramRun> {
  return name.includes("locked") ? boundByPermissions(() => ended(args)) : ended(args);
}

describe.each(["none", "big", "locked"])("rules that can't be read (%s)", (name) => {
  // Promise(operators): A command that can't read its rules exits with the documented code, and says why.
  test.each(RULES_READERS)("are said by %s", async (_, args, code) => {
    const { out, err, exitCode } = await endedAt(name, args(path(name)));
    expect(`${out}${err}`).toContain(`${path(name)}`);
    expect(`${out}${err}`).toMatch(/can't read the (?:file|rules directory): \w/);
    expect(exitCode).toBe(code);
  });
});

test.each(RULES_READERS)("a missing file of rules is called a file by %s", async (_, args, code) => {
  const { out, err, exitCode } = await ended(args(path("none.yaml")));
  expect(`${out}${err}`).toContain("can't read the file: it does not exist");
  expect(exitCode).toBe(code);
});

test.each(RULES_READERS)("an empty path of rules is refused by %s", async (_, args) => {
  const { err, exitCode } = await ended(args(""));
  expect(err).toMatch(/Expected a (?:path|directory)\./);
  expect(exitCode).toBe(2);
});

test.each(RULES_READERS.filter(([what]) => /^(?:explain|check|simulate$)/.test(what)))(
  "rule files that a service under a control plane would not read are missed by %s",
  async (_, args, code) => {
    const unnamed = args("").filter((arg) => arg !== "" && arg !== "-r");
    const { out, err, exitCode } = await ended(unnamed, { CONFIG_TYPE: "GRPC_XDS_SOTW" });
    expect(`${out}${err}`).toContain("CONFIG_TYPE is GRPC_XDS_SOTW, and the service reads no rule files then");
    expect(exitCode).toBe(code);
  },
);

test.each([
  {
    what: "33 descriptors",
    args: ["-d", "d", ...Array.from({ length: 33 }, () => "a=b")],
    why: "expected a list of at most 32 as descriptors",
  },
  {
    what: "a key of 4,097 bytes",
    args: ["-d", "d", `${"k".repeat(4_097)}=b`],
    why: "as descriptors[0].entries[0].key",
  },
  {
    what: "a value of 4,097 bytes",
    args: ["-d", "d", `a=${"v".repeat(4_097)}`],
    why: "descriptors[0].entries[0].value",
  },
  { what: "a domain of 1,025 bytes", args: ["-d", "d".repeat(1_025), "a=b"], why: "as domain" },
])("explain refuses $what from files as a server does", async ({ args, why }) => {
  const { err, exitCode } = await ended(["explain", "-r", rules, ...args]);
  expect(err).toContain(why);
  expect(exitCode).toBe(2);
});

describe.each(["none", "folder", "big", "locked"])("a file that can't be read (%s)", (name) => {
  test.each(READERS)("is said by %s, which ends with 2", async (_, args) => {
    const { out, err, exitCode } = await endedAt(name, args(path(name)));
    expect(`${out}${err}`).toMatch(/can't read|can't be used|no files of cases/);
    expect(`${out}${err}`).not.toMatch(NODES_OWN);
    expect(exitCode).toBe(2);
  });
});

describe.each([
  ["none", "it does not exist"],
  ["folder", "it is a directory"],
  ["locked", "permission denied"],
])("a token that can't be read (%s)", (name, why) => {
  test.each(TOKEN_READERS)("is said by %s, which ends with 2", async (_, args) => {
    const { err, exitCode } = await endedAt(name, args(path(name)));
    expect(err).toMatch(/^can't ask http:/);
    expect(err.endsWith(`: can't read ${path(name)}: ${why}\n`), err).toBe(true);
    expect(exitCode).toBe(2);
  });
});

test.each(["rules-big.yaml", "rules-locked.yaml"])("cases whose rules can't be read end with 2 (%s)", async (name) => {
  const { out, exitCode } = await endedAt(name, ["test", path(name)]);
  expect(out).toContain("can't read the file: ");
  expect(exitCode).toBe(2);
});

test("a folder of cases with a folder that can't be read ends with 2", async () => {
  const { out, exitCode } = await endedAt("beside-locked", ["test", path("beside-locked")]);
  expect(out).toContain(`${path("beside-locked/locked")}:1:1: error: can't read the folder: permission denied`);
  expect(exitCode).toBe(2);
});

test.each([
  { args: ["explain", "-d", "d", "-r", rules, "--require-match", "a=b"], code: 2 },
  { args: ["simulate", "-r", rules, calls], code: 2 },
  { args: ["suggest", calls], code: 2 },
  { args: ["check", rules], code: 1 },
  { args: ["config_check", "-config_dir", folder], code: 1 },
])("a setting that can't be used ends $args.0 with $code", async ({ args, code }) => {
  const type = await ended(args, { CONFIG_TYPE: "xds" });
  expect([type.err.includes('CONFIG_TYPE: expected file or grpc_xds_sotw, got "xds"'), type.exitCode]).toEqual([
    true,
    code,
  ]);
  const { out, err, exitCode } = await ended(args, { COMPATIBILITY_MODE: "maybe" });
  expect(err).toMatch(/^(?:.*\n)?COMPATIBILITY_MODE: expected true or false, got "maybe"\n?$/);
  expect([out, exitCode]).toEqual(["", code]);
});
