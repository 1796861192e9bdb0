// No file needs a file that needs it: each can be read with only what it stands on. Imports of types count, because a
// reader follows them too.

import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { PACKAGES } from "../support/own-packages.ts";
import { filesOf, importedFile, importsOf, isOfFile } from "./imports.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const FIXTURE = resolve(import.meta.dirname, "../fixtures/circles");

type Graph = ReadonlyMap<string, readonly string[]>;

function graphOf(folder: string): Graph {
  return new Map(
    filesOf(folder).map((file) => {
      const imports = importsOf(folder, file).filter(isOfFile);
      return [file, imports.map((one) => importedFile(folder, one))];
    }),
  );
}

/** The shortest way along imports from the file back to itself; undefined if there isn't one. */
function circleFrom(start: string, graph: Graph): string[] | undefined {
  const ways: string[][] = [[start]];
  const seen = new Set<string>();
  for (const way of ways) {
    for (const next of graph.get(way.at(-1) ?? start) ?? []) {
      if (next === start) return [...way, start];
      if (!seen.has(next)) ways.push([...way, next]);
      seen.add(next);
    }
  }
  return undefined;
}

/** The circles of a folder, each named once, by the first of its files. */
function circlesIn(folder: string): string[] {
  const graph = graphOf(folder);
  const told = new Set<string>();
  return [...graph.keys()].toSorted().flatMap((file) => {
    const circle = told.has(file) ? undefined : circleFrom(file, graph);
    for (const member of circle ?? []) told.add(member);
    return circle === undefined ? [] : [circle.join(" -> ")];
  });
}

describe("circles of imports", () => {
  test.each(["src", ...PACKAGES.map((folder) => `${folder}/src`)])("there are none in %s", (folder) => {
    expect(circlesIn(resolve(ROOT, folder))).toEqual([]);
  });

  test("are found where there are some, also through types, dynamic imports and exports", () => {
    expect(circlesIn(FIXTURE)).toEqual([
      "again.ts -> nested/back.ts -> again.ts",
      "first.ts -> second.ts -> third.ts -> first.ts",
    ]);
  });
});
