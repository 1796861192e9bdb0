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
    const places = files.map((file) => text.indexOf(textOf(file)));
    expect(places[0], name).toBe(0);
    expect(places, name).toEqual([...places].sort((one, other) => one - other));
    expect(text.endsWith(textOf(files.at(-1) ?? "")), name).toBe(true);
  }
});

test("scripts are called by the hash of their text", () => {
  for (const { text, sha } of Object.values(loadScripts())) {
    expect(sha).toBe(createHash("sha1").update(text).digest("hex"));
  }
});

test.each(ALL_FILES)("%s never turns a number into text other than by digits", (file) => {
  const code = textOf(file).replace(/--.*/g, "");
  // `..` joins text only: what stands beside it is a literal, a call of digits, or by its name a piece of saved text.
  const joined = [...code.matchAll(/(\S+) \.\. (\S+)/g)].flatMap(([, left, right]) => [left, right]);
  expect(
    joined.filter((part) => part !== undefined && !/^('.*'?|'|digits\(.*\)|.*\)|[a-z]+_text)$/.test(part)),
  ).toEqual([]);
  expect(code).not.toContain("tostring");
});

function textOf(file: string): string {
  return readFileSync(resolve(LUA, file), "utf8");
}
