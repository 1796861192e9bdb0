// Reading a rules directory: which files count, in what order, and that nothing is left out in silence.

import { chmodSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type LoadOptions, loadError, loadRules } from "../../../../src/rule-sources/files/load.ts";
import { parseFile } from "../../../../src/rule-sources/files/parse-file.ts";
import { hashRuleFiles } from "../../../../src/rule-sources/files/read-files.ts";
import { PlainStatsBook } from "../../../support/rules.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

let directory: string;

beforeEach(() => {
  directory = temporaryFolder("headgate-load");
});

afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

function put(name: string, text: string | Buffer): void {
  mkdirSync(join(directory, name, ".."), { recursive: true });
  writeFileSync(join(directory, name), text);
}

function load(options: Partial<LoadOptions> = {}) {
  return loadRules(directory, { statsBook: new PlainStatsBook(), ...options });
}

describe("which files are read", () => {
  beforeEach(() => {
    put("b.yml", "domain: b\n");
    put("a.yaml", "domain: a\n");
    put("sub/deep/c.json", '{"domain": "c"}');
    put("notes.txt", "domain: txt\n");
    put(".hidden.yaml", "domain: hidden\n");
    put("..2026/d.yaml", "domain: a\n");
  });

  test("YAML and JSON files of all folders, in the order of their names", async () => {
    const { ruleSet, files } = await load();
    expect(files).toEqual(["a.yaml", "b.yml", "sub/deep/c.json"]);
    expect([...(ruleSet?.domains.keys() ?? [])]).toEqual(["a", "b", "c"]);
  });

  test("every regular file if asked to", async () => {
    expect((await load({ everyFile: true })).files).toEqual(["a.yaml", "b.yml", "notes.txt", "sub/deep/c.json"]);
  });

  test("dot files if asked to", async () => {
    const { files } = await load({ dotFiles: true, mergeDomains: true });
    expect(files).toEqual([".hidden.yaml", "a.yaml", "b.yml", "sub/deep/c.json"]);
  });

  test("a ConfigMap's files are read once, through their links", async () => {
    rmSync(join(directory, "a.yaml"));
    symlinkSync("..2026", join(directory, "..data"));
    symlinkSync("..data/d.yaml", join(directory, "d.yaml"));
    expect((await load()).files).toEqual(["b.yml", "d.yaml", "sub/deep/c.json"]);
  });

  test("a link back to a folder above is not followed forever", async () => {
    symlinkSync("..", join(directory, "sub/up"));
    expect((await load()).ruleSet?.domains.size).toBe(3);
  });
});

describe("what can't be read is an error", () => {
  test("a missing directory", async () => {
    rmSync(directory, { recursive: true });
    const result = await load();
    expect(result.ruleSet).toBeUndefined();
    expect(result.problems).toEqual([
      {
        severity: "error",
        file: directory,
        line: 1,
        column: 1,
        message: "can't read the rules directory: it does not exist",
      },
    ]);
    expect(loadError(directory, result)).toMatchObject({ code: "CONFIG_RULES_DIR", problems: [expect.any(String)] });
  });

  test("a file in place of the directory", async () => {
    put("a.yaml", "domain: a\n");
    const result = await loadRules(join(directory, "a.yaml"), { statsBook: new PlainStatsBook() });
    expect(result.problems[0]?.message).toBe("can't read the rules directory: it is not a directory");
  });

  test("a link that leads nowhere, while the other files are good", async () => {
    put("a.yaml", "domain: a\n");
    symlinkSync("gone.yaml", join(directory, "b.yaml"));
    const { ruleSet, problems } = await load();
    expect(ruleSet).toBeUndefined();
    expect(problems).toMatchObject([{ file: "b.yaml", message: "can't read the file: it does not exist" }]);
  });

  test.skipIf(process.getuid?.() === 0)("a file without permission", async () => {
    put("a.yaml", "domain: a\n");
    chmodSync(join(directory, "a.yaml"), 0);
    expect((await load()).problems).toMatchObject([
      { file: "a.yaml", message: "can't read the file: permission denied" },
    ]);
  });

  test("bad rules have the code of bad rules and a line per error", async () => {
    put("a.yaml", "domain: a\nquotas: 1\nkey: x\n");
    const error = loadError(directory, await load());
    expect(error.code).toBe("CONFIG_RULES");
    expect(error.problems).toHaveLength(1);
    expect(error.problems[0]).toMatch(/^a\.yaml:2:1: error: unknown key 'quotas'/);
  });

  test("an empty directory is a warning: nothing is limited", async () => {
    const { ruleSet, problems } = await load();
    expect(ruleSet?.domains.size).toBe(0);
    expect(problems).toMatchObject([{ severity: "warning", file: directory }]);
    expect(ruleSet?.warnings).toEqual(problems);
  });
});

test("the hash changes with a name and with a content, and is the set's", async () => {
  put("a.yaml", "domain: a\n");
  const first = await load();
  expect(first.ruleSet?.hash).toBe(first.hash);
  expect(await hashRuleFiles(directory)).toBe(first.hash);
  put("a.yaml", "domain: b\n");
  const second = await hashRuleFiles(directory);
  renameSync(join(directory, "a.yaml"), join(directory, "b.yaml"));
  const third = await hashRuleFiles(directory);
  expect(new Set([first.hash, second, third]).size).toBe(3);
});

describe("bytes of a file", () => {
  test.each([
    { name: "UTF-8 with a byte order mark", bytes: Buffer.from("\ufeffdomain: ü\n") },
    { name: "UTF-16 little endian", bytes: Buffer.from("\ufeffdomain: ü\n", "utf16le") },
    { name: "UTF-16 big endian", bytes: Buffer.from("\ufeffdomain: ü\n", "utf16le").swap16() },
    { name: "carriage returns", bytes: Buffer.from("domain: ü\r\ndescriptors: []\r\n") },
  ])("$name is read", ({ bytes }) => {
    const { root, problems } = parseFile({ name: "a.yaml", bytes });
    expect(problems).toEqual([]);
    const first = root?.kind === "mapping" ? root.entries[0] : undefined;
    expect(first).toMatchObject({ key: { text: "domain" }, value: { text: "ü" } });
  });

  test("the place of bytes that are not UTF-8", () => {
    const { problems } = parseFile({ name: "a.yaml", bytes: Buffer.from("domain: d\nmetadata: \xff\n", "latin1") });
    expect(problems).toMatchObject([{ line: 2, column: 11, message: "the file is not UTF-8 text" }]);
  });

  test("the place of a control character", () => {
    const { problems } = parseFile({ name: "a.yaml", bytes: Buffer.from("domain: d\n# \u0007\n") });
    expect(problems).toMatchObject([
      { line: 2, column: 3, message: "a control character (0x07) is not allowed in YAML" },
    ]);
  });
});

test("the example rules of the package load without a warning", async () => {
  const { ruleSet, problems } = await loadRules(join(import.meta.dirname, "../../../../deploy/rules"), {
    statsBook: new PlainStatsBook(),
  });
  expect(problems).toEqual([]);
  expect(ruleSet?.domains.has("edge")).toBe(true);
});
