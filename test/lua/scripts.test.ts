// The table of scripts and the folder lua/ agree, and no script loses digits of a number.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { LUA_FILES, loadTakeAll } from "../../src/stores/redis/scripts.ts";

const LUA = resolve(import.meta.dirname, "../../lua");

test("the table of scripts names every file of lua/ and no other", () => {
  expect([...LUA_FILES].sort()).toEqual(readdirSync(LUA).sort());
});

test("the script is its files, joined in the order of the table", () => {
  const texts = LUA_FILES.map((file) => readFileSync(resolve(LUA, file), "utf8"));
  expect(loadTakeAll().text).toBe(texts.join("\n"));
});

test("the script is called by the hash of its text", () => {
  const { text, sha } = loadTakeAll();
  expect(sha).toBe(createHash("sha1").update(text).digest("hex"));
});

test.each(LUA_FILES)("%s never turns a number into text other than by digits", (file) => {
  const code = readFileSync(resolve(LUA, file), "utf8").replace(/--.*/g, "");
  // `..` joins text only; what stands beside it is a literal or a call of digits.
  const joined = [...code.matchAll(/(\S+) \.\. (\S+)/g)].flatMap(([, left, right]) => [left, right]);
  expect(joined.filter((part) => part !== undefined && !/^('.*'?|'|digits\(.*\)|.*\))$/.test(part))).toEqual([]);
  expect(code).not.toContain("tostring");
});
