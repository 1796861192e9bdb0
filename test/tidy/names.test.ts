// The rules of style that a machine can check: names, sizes, words.

import { readdirSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { PACKAGES } from "../support/own-packages.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const FOLDERS = ["src", "page", "test", "bench", "lua", "sql"].concat(
  PACKAGES.flatMap((folder) => [`${folder}/src`, `${folder}/test`]),
);
const FILE_LINES_MAX = 400;
const COMMENT_COLUMNS_MAX = 120;

function filesOf(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.(ts|mjs|lua|sql)$/.test(file) && !file.includes("node_modules"))
    .map((file) => join(folder, file));
}

const files = FOLDERS.flatMap(filesOf);
const sources = files.filter((file) => /^((packages\/[\w-]+\/)?src|page)\//.test(file));
const textOf = (file: string) => readFileSync(join(ROOT, file), "utf8");

describe("names and sizes", () => {
  test("TypeScript files are in kebab-case, Lua and SQL files in snake_case", () => {
    const wrong = files.filter((file) => {
      const name = basename(file);
      return /\.(lua|sql)$/.test(file)
        ? !/^[a-z0-9_]+\.(lua|sql)$/.test(name)
        : !/^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z]+)*\.(ts|mjs)$/.test(name);
    });
    expect(wrong).toEqual([]);
  });

  test("no file is named for being anything at all", () => {
    expect(files.filter((file) => /\/(utils?|helpers?|common|misc|index)\.ts$/.test(file))).toEqual([]);
  });

  test("comment lines of TypeScript and Lua end at 120 columns", () => {
    const code = files.filter((file) => /^((packages\/[\w-]+\/)?src|lua)\//.test(file));
    const wide = code.flatMap((file) =>
      textOf(file)
        .split("\n")
        .flatMap((line, i) =>
          line.length > COMMENT_COLUMNS_MAX && /^\s*(\/\/|\/?\*|--)/.test(line) ? [`${file}:${i + 1}`] : [],
        ),
    );
    expect(wide).toEqual([]);
  });

  test("source files stay under 400 lines", () => {
    const long = sources.filter((file) => textOf(file).split("\n").length > FILE_LINES_MAX + 1);
    expect(long).toEqual([]);
  });

  test("source files open with a comment that says their job", () => {
    expect(files.filter((file) => !/^(#!.*\n)?(\/\/|--|\/\*)/.test(textOf(file)))).toEqual([]);
  });

  test("code is ASCII; only comments may hold other letters", () => {
    const codeOf = (file: string) => textOf(file).replace(/\/\/.*|\/\*[\s\S]*?\*\//g, "");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the whole ASCII range is meant
    expect(sources.filter((file) => /[^\x00-\x7f]/.test(codeOf(file)))).toEqual([]);
  });

  test("comments cite only what a reader of this repository can open", () => {
    expect(
      files.filter(
        (file) => /[Dd]esign(\.md)? §|style\.md|settlement\.md|facts\//.test(textOf(file)) && !file.includes("tidy/"),
      ),
    ).toEqual([]);
  });

  test("no work is left behind as a note, no test is skipped or focused", () => {
    const banned = new RegExp(["TO" + "DO", "FIX" + "ME", "\\b(it|test|describe)\\.(skip|only)\\b"].join("|"));
    expect(files.filter((file) => banned.test(textOf(file)))).toEqual([]);
  });
});
