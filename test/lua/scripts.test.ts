// The script loses no digits of a number, and is known by its hash. What it does is held against the TypeScript (test/property).

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { loadScripts, SCRIPT_FILES } from "../../src/stores/redis/scripts.ts";

const LUA = resolve(import.meta.dirname, "../../lua");
const FILES = readdirSync(LUA).sort();

test.each(Object.entries(loadScripts()))("the script of %s is called by the hash of its text", (_, { text, sha }) => {
  expect(sha).toBe(createHash("sha1").update(text).digest("hex"));
});

test("every file of the folder is part of a script", () => {
  const joined = Object.values(SCRIPT_FILES).flat();
  expect([...new Set([...joined, "runtime_limits.lua"])].sort()).toEqual(FILES);
});

// The script of limits at run time joins texts, and the numbers of its hashes.
test.each(FILES.filter((file) => file !== "runtime_limits.lua"))(
  "%s never turns a number into text other than by its formats",
  (file) => {
    const code = textOf(file).replace(/--.*/g, "");
    // What `..` joins are the letters of a format.
    expect(code.replaceAll("'<' .. rep('d', ", "")).not.toContain("..");
    expect(code).not.toContain("tostring");
  },
);

function textOf(file: string): string {
  return readFileSync(resolve(LUA, file), "utf8");
}
