// The command line as a whole: help, usage errors, check and explain on real files.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { describeSettings, readSettings } from "../../../../src/settings/settings.ts";
import { buildProgram } from "../../../../src/tools/cli/program.ts";
import { RecordedTerminal } from "../../../support/recorded-terminal.ts";
import { runProgram } from "../../../support/run-program.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const directory = temporaryFolder("headgate-cli");
const good = join(directory, "good");
const bad = join(directory, "bad");

const GOOD = `domain: shop
descriptors:
  - key: tier
    value: free
    descriptors:
      - key: user
        rate_limit: { requests_per_unit: 5, unit: minute, algorithm: sliding_log, name: free }
  - key: tier
    rate_limit: { tokens_per_second: 10, burst: 20 }
`;
const BAD = `domain: shop
descriptors:
  - key: tier
    rate_limit: { requests_per_unit: many, unit: minute }
  - ky: user
`;

beforeAll(() => {
  mkdirSync(good);
  mkdirSync(bad);
  writeFileSync(join(good, "shop.yaml"), GOOD);
  writeFileSync(join(bad, "shop.yaml"), BAD);
});

test("without arguments it shows three next steps, of which each is a command line that it takes", async () => {
  const { out, exitCode } = await runProgram([]);
  expect(exitCode).toBe(0);
  expect([...out.matchAll(/ (\d)\. /g)].map(([, number]) => number)).toEqual(["1", "2", "3"]);
  expect(out).toContain("http://localhost:8080");
  const { commands } = buildProgram({ serve: async () => undefined, checkStart: async () => [], version: "1" });
  const named = [...out.matchAll(/\bheadgate ([a-z]+)/g)].map(([, name]) => name);
  expect(named.filter((name) => !commands.some((command) => command.name() === name))).toEqual([]);
  expect(out.split("\n").filter((line) => line.length > 80)).toEqual([]);
});

describe("help", () => {
  const commands = buildProgram({
    serve: async () => undefined,
    checkStart: async () => [],
    version: "1",
    terminal: new RecordedTerminal(),
  }).commands;
  const all = commands.flatMap((command) => {
    const name = command.name();
    return [name, ...command.commands.map((below) => `${name} ${below.name()}`)];
  });

  test.each(["", ...all])("of headgate %s fits 80 columns and has examples", async (command) => {
    const { out, exitCode } = await runProgram([...command.split(" "), "--help"].filter((word) => word !== ""));
    expect(exitCode).toBe(0);
    expect(out).toContain("Examples:");
    expect(out.split("\n").filter((line) => line.length > 80)).toEqual([]);
  });

  test("of serve names settings that exist, with their defaults", async () => {
    const shown = describeSettings(readSettings({}));
    const { out } = await runProgram(["serve", "--help"]);
    const named = [...out.matchAll(/^ {2}([A-Z_]+) {2,}.*?(?:\((\w+)\))?$/gm)].filter(
      (match) => !match[1]?.startsWith("SIG"),
    );
    expect(named.length).toBeGreaterThan(4);
    for (const [, name = "", value] of named) expect([name, value ?? shown[name]]).toEqual([name, shown[name]]);
  });
});

test("the version is printed", async () => {
  expect((await runProgram(["--version"])).out).toBe("1.2.3\n");
});

test("serve runs the service", async () => {
  let served = 0;
  await runProgram(["serve"], { onServe: () => served++ });
  expect(served).toBe(1);
});

test.each([
  { name: "an unknown command", args: ["chek"], says: "Did you mean check?" },
  { name: "an unknown option", args: ["check", "--jsn"], says: "Did you mean --json?" },
  { name: "a missing domain", args: ["explain", "a=b"], says: "--domain" },
  { name: "no descriptor", args: ["ask", "--domain", "d"], says: "descriptors" },
  { name: "hits that are no number", args: ["ask", "-d", "d", "--hits", "-1", "a=b"], says: "whole number" },
  { name: "a peek and a refund", args: ["ask", "-d", "d", "--peek", "--refund", "a=b"], says: "cannot be used with" },
  { name: "a peek with hits", args: ["ask", "-d", "d", "--peek", "--hits", "2", "a=b"], says: "cannot be used with" },
])("$name is refused with a word of help and ends with 2, which no finding does", async ({ args, says }) => {
  const { err, exitCode } = await runProgram(args);
  expect(exitCode).toBe(2);
  expect(err).toContain(says);
});

describe("check", () => {
  test("sums up good files in one line", async () => {
    const run = await runProgram(["check", good]);
    expect(run).toEqual({ out: "ok: 1 domain, 3 rules, 2 limits in 1 file\n", err: "", exitCode: 0 });
  });

  test("prints every problem with its place and ends with 1", async () => {
    const { out, exitCode } = await runProgram(["check", bad]);
    const lines = out.trimEnd().split("\n");
    expect(exitCode).toBe(1);
    const problems = lines.filter((line) => line.startsWith(`${bad}/shop.yaml:`));
    expect(problems.every((line) => /shop\.yaml:\d+:\d+: error: .+/.test(line))).toBe(true);
    expect(problems.map((line) => /shop\.yaml:(\d+)/.exec(line)?.[1])).toEqual(expect.arrayContaining(["4", "5"]));
    expect(lines.at(-1)).toBe(`${problems.length} errors in 1 file`);
  });

  test("shows the line of each problem with a caret below the place, whatever precedes it", async () => {
    const file = join(directory, "places.yaml");
    const long = `${"x".repeat(300)}`;
    const text = `\ufeffdomain: d\ndescriptors:\n  - { key: "t\tb\u202e${long}", unti: 1 }\n  - { key: a, rate_limit: { unit: secnd } }\n`;
    writeFileSync(file, text);
    const lines = (await runProgram(["check", file])).out.split("\n");
    for (const word of ["unti", "secnd"]) {
      const at = lines.findIndex((line) => line.includes("error:") && line.includes(`'${word}'`));
      const [excerpt = "", caret = ""] = lines.slice(at + 1, at + 3);
      expect(excerpt.slice(caret.indexOf("^"))).toMatch(new RegExp(`^${word}`));
      expect(Math.max(excerpt.length, caret.length)).toBeLessThanOrEqual(80);
    }
  });

  // Promise(operators): `check` names files as the path was typed.
  test("names files as the path was typed", async () => {
    const typed = relative(process.cwd(), bad);
    const places = async (path: string) => (await runProgram(["check", path])).out.match(/^\S+shop\.yaml(?=:\d)/gm);
    for (const [path, shown] of [
      [bad, `${bad}/shop.yaml`],
      [`${bad}/`, `${bad}/shop.yaml`],
      [typed, `${typed}/shop.yaml`],
      [`./${typed}`, `./${typed}/shop.yaml`],
      [join(bad, "shop.yaml"), join(bad, "shop.yaml")],
      [`${typed}/shop.yaml`, `${typed}/shop.yaml`],
    ] as const) {
      expect(new Set(await places(path))).toEqual(new Set([shown]));
    }
  });

  test("reads a pipe once", async () => {
    const pipe = join(directory, "pipe");
    execFileSync("mkfifo", [pipe]);
    const [{ out, exitCode }] = await Promise.all([runProgram(["check", pipe]), writeFile(pipe, BAD)]);
    expect(out).toContain(`${pipe}:5:5: error: unknown key 'ky'`);
    expect(out).toContain("   5 |   - ky: user\n");
    expect(exitCode).toBe(1);
  });

  test("lets warnings pass, unless it is to be strict", async () => {
    const empty = mkdtempSync(join(directory, "empty-"));
    const [lenient, strict] = [await runProgram(["check", empty]), await runProgram(["check", "--strict", empty])];
    expect([lenient.exitCode, strict.exitCode]).toEqual([0, 1]);
    expect(lenient.out).toContain("; 1 warning");
  });

  test("looks where the service would without a path", async () => {
    const run = await runProgram(["check"], { env: { RULES_DIR: good } });
    expect(run.out).toMatch(/^ok: 1 domain, 3 rules/);
  });

  test("joins files of one domain only when told to", async () => {
    const twice = mkdtempSync(join(directory, "twice-"));
    writeFileSync(
      join(twice, "a.yaml"),
      "domain: d\ndescriptors: [{ key: a, rate_limit: { requests_per_unit: 1, unit: day } }]\n",
    );
    writeFileSync(
      join(twice, "b.yaml"),
      "domain: d\ndescriptors: [{ key: b, rate_limit: { requests_per_unit: 1, unit: day } }]\n",
    );
    const byFlag = await runProgram(["check", "--merge-domains", twice]);
    const bySetting = await runProgram(["check", twice], { env: { MERGE_DOMAIN_CONFIG: "true" } });
    expect([(await runProgram(["check", twice])).exitCode, byFlag.exitCode, bySetting.exitCode]).toEqual([1, 0, 0]);
  });

  test("prints JSON for machines", async () => {
    const report: unknown = JSON.parse((await runProgram(["check", "--json", good])).out);
    expect(report).toEqual({
      ok: true,
      files: [join(good, "shop.yaml")],
      summary: { domains: 1, rules: 3, limits: 2 },
      problems: [],
      hints: [],
    });
    const refused: unknown = JSON.parse((await runProgram(["check", "--json", bad])).out);
    expect(refused).toMatchObject({
      ok: false,
      summary: null,
      problems: expect.arrayContaining([
        expect.objectContaining({ severity: "error", file: join(bad, "shop.yaml"), line: 4 }),
      ]),
    });
  });

  test("warns of nothing that a control plane's rules may use", async () => {
    const joining = join(directory, "joining.yaml");
    const limit = "rate_limit: { unit: hour, requests_per_unit: 1, replaces: [{ name: theirs }] }";
    writeFileSync(
      joining,
      `domain: edge\ndefaults: { hold: { id: a, ttl: 5s } }\nlimits: { gold: { requests_per_unit: 1, unit: day } }\ndescriptors: [{ key: b, ${limit} }]\n`,
    );
    const outputs = [];
    for (const CONFIG_TYPE of ["GRPC_XDS_SOTW", "FILE"]) {
      const { out, exitCode } = await runProgram(["check", joining], { env: { CONFIG_TYPE } });
      outputs.push([exitCode, out.match(/warning: \w+/g)]);
    }
    expect(outputs).toEqual([
      [0, null],
      [0, ["warning: no", "warning: limits", "warning: replaces"]],
    ]);
  });

  test("hints at calendars where weeks, months and years are those of the reference", async () => {
    const rules = join(directory, "months.yaml");
    const limits = [
      "unit: month",
      "unit: month, algorithm: fixed_window",
      "unit: day",
      "unit: year, algorithm: token_bucket",
    ];
    const calendar = "window: { calendar: month, time_zone: UTC }";
    const lines = [...limits, calendar].map(
      (words, i) => `  - { key: k${i}, rate_limit: { requests_per_unit: 500, ${words} } }\n`,
    );
    writeFileSync(rules, `domain: d\ndescriptors:\n${lines.join("")}`);
    const { out, exitCode } = await runProgram(["check", "--strict", rules]);
    expect(exitCode).toBe(0);
    expect(out.match(/^hint: .*$/gm)).toEqual([
      `hint: a month here has 30 days, counted from 1970 on (2 limits, the first d/k0); for a calendar month write window: { calendar: month, time_zone: Europe/Berlin }`,
    ]);
    writeFileSync(
      rules,
      "domain: d\nglobal_limit: { requests_per_unit: 500, unit: week }\n" +
        "limits:\n  free: { requests_per_unit: 500, unit: day }\n  gold: { requests_per_unit: 500, unit: month }\n" +
        "descriptors:\n  - { key: user, tier: { entry: plan, default: free } }\n",
    );
    expect((await runProgram(["check", rules])).out.match(/^hint: .*\)/gm)).toEqual([
      "hint: a week here begins on Thursday at midnight UTC (1 limit, the first d#global)",
      "hint: a month here has 30 days, counted from 1970 on (1 limit, the first d/user#gold)",
    ]);
  });

  test("colours for terminals only", async () => {
    expect((await runProgram(["check", bad], { isColoured: true })).out).toContain("\x1b[31merror\x1b[39m");
    expect((await runProgram(["check", bad])).out).not.toContain("\x1b");
  });
});

test("check --format github prints problems as annotations of a pull request", async () => {
  const { out, exitCode } = await runProgram(["check", "--format", "github", bad]);
  expect(exitCode).toBe(1);
  const [first, second] = out.split("\n");
  const place = `file=${bad}/shop.yaml,line=4,col=38,title=headgate check`;
  expect(first).toBe(`::error ${place}::requests_per_unit: expected a whole number from 0 to 4294967295, got 'many'`);
  expect(second).toMatch(/^::error file=.*,line=5,col=5,title=headgate check::unknown key 'ky'.*Did you mean 'key'\?/);
});

describe("explain --require-match", () => {
  test.each([
    ["a rule with a limit applies", ["tier=free,user=ann"], 0],
    ["no rule accepts an entry", ["color=red"], 1],
    ["the way ends at a rule without a limit", ["tier=free"], 1],
  ])("ends by whether a rule applies: %s", async (_, entries, code) => {
    const args = ["explain", "-d", "shop", "-r", good, "--require-match"];
    expect((await runProgram([...args, ...entries])).exitCode).toBe(code);
    expect((await runProgram([...args.slice(0, -1), ...entries])).exitCode).toBe(0);
  });

  test("a domain without rules is no match", async () => {
    expect((await runProgram(["explain", "-d", "elsewhere", "-r", good, "--require-match", "a=b"])).exitCode).toBe(1);
  });
});

describe("explain", () => {
  test("prints what was tried, what applies and where it is counted", async () => {
    const { out, exitCode } = await runProgram(`explain -d shop -r ${good}/shop.yaml tier=free,user=ann`);
    expect(exitCode).toBe(0);
    expect(out).toBe(`domain shop, rules version 1

tier=free
  \u2713 tier=free: value is 'free'
  \u00b7 tier: 'tier=free' matched exactly, so the rule for any value was not tried
user=ann
  \u2713 user: takes any value of 'user'
=> the rule 'tier=free/user' applies
  ${good}/shop.yaml:6:9
  free: 5 hits per minute, sliding log
    bucket {shop|tier=free|user=ann}|log/60/free
`);
  });

  test("says in words what a call holds, and in which parts callers count", async () => {
    const rules = join(good, "..", "held.yaml");
    writeFileSync(
      rules,
      "domain: held\ndescriptors:\n- key: a\n  hold: { id: i, estimate: e, default: 2500, per: 1000, ttl: 60s }\n" +
        "  rate_limit: { requests_per_unit: 5, unit: hour, algorithm: fixed_window }\n",
    );
    const asked = ["explain", "-d", "held", "-r", rules];
    expect((await runProgram([...asked, "a=b"])).out).toContain(
      "held.yaml:3:3, 1000 of what callers count are one here, rounded up, a call holds 3\n",
    );
    expect((await runProgram([...asked, "a=b,settle=x"])).out).not.toContain("a call holds");
  });

  test("keeps within 80 columns but for bucket names", async () => {
    const { out } = await runProgram(["explain", "-d", "shop", "-r", good, `tier=${"x ".repeat(60)}`, "nobody=x"]);
    const long = out.split("\n").filter((line) => line.length > 80 && !line.includes("bucket "));
    expect(long.filter((line) => !line.startsWith("tier="))).toEqual([]);
  });

  test("shows control characters instead of sending them to the terminal", async () => {
    const { out } = await runProgram(["explain", "-d", "shop", "-r", good, "tier=\x1b[2J"]);
    expect(out).not.toContain("\x1b");
    expect(out).toContain("\\x1b[2J");
  });

  test("prints the problems of rules that can't be used, and ends with 2", async () => {
    const { out, err, exitCode } = await runProgram(["explain", "-d", "shop", "-r", bad, "tier=free"]);
    expect([out, exitCode]).toEqual(["", 2]);
    expect(err).toMatch(/shop\.yaml:4:\d+: error: /);
  });
});
