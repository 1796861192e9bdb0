// The script is all of the folder lua/ put together, and it loses no digits of a number.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { loadScript } from "../../src/stores/redis/scripts.ts";

const LUA = resolve(import.meta.dirname, "../../lua");
const FILES = readdirSync(LUA).sort();
const { text: SCRIPT, sha: SHA } = loadScript();

test.each(FILES)("the script holds every line of code of %s", (file) => {
  const lines = new Set(SCRIPT.split("\n"));
  const constants = constantsOf(FILES);
  const missing = textOf(file)
    .split("\n")
    .filter((line) => !/^ *--/.test(line) && !CONSTANTS.test(line))
    .map((line) => line.replace(/\b[A-Z][A-Z0-9_]*\b/g, (name) => constants.get(name) ?? name))
    .filter((line) => !lines.has(line));
  expect(missing).toEqual([]);
});

test("a piece is put into a branch of each algorithm that has it, and nothing is left to insert", () => {
  expect(SCRIPT).not.toMatch(/^ *-- (?:PIECE|INSERT|EACH|FILE) \S+$/m);
  const places = [0, 1, 2, 5, 3].map((algorithm) => SCRIPT.indexOf(`if algorithm == ${algorithm} then\n`));
  expect(Math.min(...places)).toBeGreaterThan(0);
  expect(places).toEqual([...places].sort((one, other) => one - other));
});

test("numbers stand in the script where files name constants, and no name is left", () => {
  const constants = constantsOf(FILES);
  expect(["TICKS", "MODE_PEEK", "CHANGED", "VERDICT_HOLDS_FULL"].map((name) => constants.get(name))).toEqual([
    "1000000",
    "1",
    "-1",
    "6",
  ]);
  expect(SCRIPT).not.toMatch(new RegExp(`\\b(?:${[...constants.keys()].join("|")})\\b`));
  expect(SCRIPT).toContain("local excess = used + cost * 1000000 - burst * 1000000");
});

test("the script is called by the hash of its text", () => {
  expect(SHA).toBe(createHash("sha1").update(SCRIPT).digest("hex"));
});

test.each(FILES)("%s never turns a number into text other than by its formats", (file) => {
  const code = textOf(file).replace(/--.*/g, "");
  // What `..` joins are the letters of a format.
  expect(code.replaceAll("'<' .. rep('d', ", "")).not.toContain("..");
  expect(code).not.toContain("tostring");
});

const CONSTANTS = /^local ([A-Z][A-Z0-9_, ]*) = (-?\d+(?:, -?\d+)*)(?: --.*)?$/;

/** The constants of the files by name; each has one value. */
function constantsOf(files: readonly string[]): ReadonlyMap<string, string> {
  const named = new Map<string, string>();
  for (const line of files.flatMap((file) => textOf(file).split("\n"))) {
    const [, names, numbers] = CONSTANTS.exec(line) ?? [];
    const each = numbers?.split(", ") ?? [];
    for (const [i, name] of names?.split(", ").entries() ?? []) {
      expect(named.get(name) ?? each[i], `${name} has one value in all files`).toBe(each[i]);
      named.set(name, each[i] ?? "");
    }
  }
  return named;
}

function textOf(file: string): string {
  return readFileSync(resolve(LUA, file), "utf8");
}
