// `npm run bench:compare` on runs that are written here: what counts as slower, and how it ends.

import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const PROGRAM = resolve(import.meta.dirname, "../../../bench/compare.mjs");
const folder = temporaryFolder("headgate-compare");
let files = 0;

type Spread = readonly [least: number, median: number, most: number];

function shape(name: string, [ratioLeast, ratio, ratioMost]: Spread, cpu: Spread = [1, 1, 1], by = "h2load"): object {
  return { name, by, ratio, ratioLeast, ratioMost, cpuRatioLeast: cpu[0], cpuRatio: cpu[1], cpuRatioMost: cpu[2] };
}

function run(...shapes: object[]): string {
  const file = join(folder, `${files++}.json`);
  const results = { shapes, busy: { before: { load1: 0.1, cores: 2 } } };
  writeFileSync(file, JSON.stringify({ machine: { commit: "abc1234" }, date: "2026-11-21T12:00:00.000Z", results }));
  return file;
}

function compare(...args: string[]): { status: number | null; out: string; said: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], { encoding: "utf8" });
  return { status, out: stdout, said: stderr };
}

describe("a comparison of two runs", () => {
  test.each([
    {
      name: "ends with 1 when all rounds of a shape are slower",
      now: [5, 5.5, 6] as const,
      verdict: "SLOWER",
      status: 1,
    },
    { name: "ends with 0 while rounds overlap", now: [6, 7, 9] as const, verdict: "within the spread", status: 0 },
    { name: "ends with 0 when all rounds are quicker", now: [13, 14, 15] as const, verdict: "quicker", status: 0 },
  ])("$name", ({ now, verdict, status }) => {
    const found = compare(run(shape("hot", [8, 10, 12])), run(shape("hot", now)));
    expect(found.out).toMatch(new RegExp(`^hot .*${verdict}$`, "m"));
    expect(found.status).toBe(status);
  });

  test("names every shape that is slower, and only those", () => {
    const older = run(shape("one", [8, 9, 10]), shape("two", [8, 9, 10]), shape("gone", [8, 9, 10]));
    const { out, status } = compare(
      older,
      run(shape("one", [3, 4, 5]), shape("two", [8, 9, 10]), shape("new", [1, 1, 1])),
    );
    expect(out.match(/^\w+ .*SLOWER$/gm)).toHaveLength(1);
    expect(out).toMatch(/^one .*-56 %\s+SLOWER$/m);
    expect(out).toContain("1 of 2 shapes slower");
    expect(status).toBe(1);
  });

  test("looks at CPU time where Envoy is the caller", () => {
    const older = run(shape("envoy", [8, 9, 10], [5, 5, 5], "envoy"));
    expect(compare(older, run(shape("envoy", [1, 1, 1], [5, 5, 5], "envoy"))).status).toBe(0);
    expect(compare(older, run(shape("envoy", [8, 9, 10], [2, 2, 2], "envoy"))).status).toBe(1);
  });

  test.each([
    {
      name: "no run of this bench",
      args: () => [run(shape("a", [1, 1, 1])), PROGRAM.replace(/bench.compare.mjs$/, "package.json")],
    },
    { name: "one file", args: () => [run(shape("a", [1, 1, 1]))] },
    { name: "runs of other shapes", args: () => [run(shape("a", [1, 1, 1])), run(shape("b", [1, 1, 1]))] },
    { name: "a file that is not there", args: () => [run(shape("a", [1, 1, 1])), join(folder, "nowhere.json")] },
  ])("ends with 2 and one line for $name", ({ args }) => {
    const { status, said } = compare(...args());
    expect(status).toBe(2);
    expect(said.trim().split("\n")).toHaveLength(1);
  });
});
