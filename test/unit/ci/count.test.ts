// The count of a suite's report: what the gate's last line says, and what it names before.

import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const SCRIPT = resolve(import.meta.dirname, "../../../.ci/count.mjs");
const folder = temporaryFolder("headgate-count");
const file = join(folder, "report.json");

function count(report: unknown): { stdout: string; stderr: string } {
  writeFileSync(file, JSON.stringify(report));
  const { stdout, stderr } = spawnSync(process.execPath, [SCRIPT, "tests", file], { encoding: "utf8" });
  return { stdout, stderr };
}

const good = { status: "passed", fullName: "a good one", failureMessages: [] };
const bad = { status: "failed", fullName: "a bad one", failureMessages: ["expected 1 to be 2\n    at somewhere"] };

test("a suite that is well counts what passed, and what is left out as neither", () => {
  const testResults = [{ name: "test/a.test.ts", status: "passed", message: "", assertionResults: [good] }];
  const report = { numPassedTests: 1, numTotalTests: 2, numPendingTests: 1, testResults };
  expect(count(report)).toEqual({ stdout: "1 0\n", stderr: "" });
});

test("a test that fails is named with its file and the first line of why", () => {
  const name = resolve("test/a.test.ts");
  const testResults = [{ name, status: "failed", message: "", assertionResults: [good, bad] }];
  const report = { numPassedTests: 1, numTotalTests: 2, numPendingTests: 0, testResults };
  const stderr = "tests: test/a.test.ts > a bad one: expected 1 to be 2\n";
  expect(count(report)).toEqual({ stdout: "1 1\n", stderr });
});

test("a file that does not load, or whose hook fails, counts as one that failed", () => {
  const broken = {
    name: resolve("b.test.ts"),
    status: "failed",
    message: "no such module\nmore",
    assertionResults: [],
  };
  const report = { numPassedTests: 0, numTotalTests: 0, numPendingTests: 0, testResults: [broken] };
  expect(count(report)).toEqual({ stdout: "0 1\n", stderr: "tests: b.test.ts: no such module\n" });
});

test("a suite that ended without a report counts as one that failed", () => {
  const { stdout, stderr } = spawnSync(process.execPath, [SCRIPT, "tests", join(folder, "none.json")], {
    encoding: "utf8",
  });
  expect({ stdout, stderr }).toEqual({ stdout: "0 1\n", stderr: "tests: ended without a report\n" });
});
