// The table of scripts and the folder lua/ agree, and no script loses digits of a number.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { LUA_FILES, loadScripts } from "../../src/stores/redis/scripts.ts";

const LUA = resolve(import.meta.dirname, "../../lua");
const ALL_FILES = [...new Set(Object.values(LUA_FILES).flat())];

test("the table of scripts names every file of lua/ and no other", () => {
  expect([...ALL_FILES].sort()).toEqual(readdirSync(LUA).sort());
});

test("each script holds its files in the order of the table", () => {
  const scripts = loadScripts();
  for (const [name, files] of Object.entries(LUA_FILES)) {
    const { text } = scripts[name as keyof typeof scripts];
    const places = files.map((file) => text.indexOf(linesOf(file)[0] ?? ""));
    expect(places[0], name).toBe(0);
    expect(places, name).toEqual([...places].sort((one, other) => one - other));
    expect(
      text.endsWith(
        linesOf(files.at(-1) ?? "")
          .slice(-2)
          .join("\n"),
      ),
      name,
    ).toBe(true);
  }
});

test("numbers stand in scripts where files name constants, and no name is left", () => {
  const named = new Map<string, string>();
  for (const file of ALL_FILES) {
    for (const line of linesOf(file)) {
      const [, names, numbers] = /^local ([A-Z][A-Z0-9_, ]*) = (\d[\d, ]*\d|\d)(?: --.*)?$/.exec(line) ?? [];
      const each = numbers?.split(", ") ?? [];
      for (const [i, name] of names?.split(", ").entries() ?? []) {
        expect(named.get(name) ?? each[i], `${name} has one value in all files`).toBe(each[i]);
        named.set(name, each[i] ?? "");
      }
    }
  }
  expect([named.get("TICKS"), named.get("MODE_PEEK"), named.get("VERDICT_HOLDS_FULL")]).toEqual(["1000000", "1", "6"]);
  const { takeAll, takeEach } = loadScripts();
  for (const { text } of [takeAll, takeEach]) {
    expect(text).not.toMatch(new RegExp(`\\b(?:${[...named.keys()].join("|")})\\b`));
  }
  // From files of each: what names two constants in a line, one of them twice.
  expect(takeEach.text).toContain("local excess = debt + cost * 1000000 - burst * 1000000");
  expect(takeAll.text).toContain("if mode == 2 or mode == 6 then return false end");
});

test("scripts are called by the hash of their text", () => {
  for (const { text, sha } of Object.values(loadScripts())) {
    expect(sha).toBe(createHash("sha1").update(text).digest("hex"));
  }
});

test.each(ALL_FILES)("%s never turns a number into text other than by digits or its formats", (file) => {
  const code = textOf(file).replace(/--.*/g, "");
  // `..` joins text only: what stands beside it is a literal, a call of digits or of format with one of its formats, or by its
  // name a piece of saved text.
  const joined = [...code.matchAll(/(\S+) \.\. (\S+)/g)].flatMap(([, left, right]) => [left, right]);
  expect(
    joined.filter(
      (part) =>
        part !== undefined && !/^('.*'?|'|digits\(.*\)|format\((?:ONE|TWO|THREE),|.*\)|[a-z]+_text)$/.test(part),
    ),
  ).toEqual([]);
  expect(code).not.toContain("tostring");
});

function linesOf(file: string): string[] {
  return textOf(file).split("\n");
}

function textOf(file: string): string {
  return readFileSync(resolve(LUA, file), "utf8");
}
