// Counts what a vitest report in JSON says: prints passed and failed on one line, and to the standard error each test, or file
// that did not load, that failed and the first line of why.
//   node .ci/count.mjs SUITE REPORT

import { readFileSync } from "node:fs";
import { relative } from "node:path";

const [suite, file] = process.argv.slice(2);

/** What a suite without a readable report counts as: it ended before it wrote one. */
const NONE = { passed: 0, failed: 1, lines: [`${suite}: ended without a report`] };

const { passed, failed, lines } = counted();
process.stdout.write(`${passed} ${failed}\n`);
for (const line of lines) process.stderr.write(`${line}\n`);

function counted() {
  try {
    const { numPassedTests, numTotalTests, numPendingTests, testResults } = JSON.parse(readFileSync(file, "utf8"));
    const lines = testResults.flatMap(failuresOf);
    // A file that did not load, or a hook that failed, may leave no test that says so.
    const failed = Math.max(numTotalTests - numPassedTests - numPendingTests, lines.length);
    return { passed: numPassedTests, failed, lines };
  } catch {
    return NONE;
  }
}

function failuresOf({ name, status, message, assertionResults }) {
  const place = `${suite}: ${relative(process.cwd(), name)}`;
  const failures = assertionResults.filter((test) => test.status === "failed");
  if (failures.length === 0 && status === "failed") return [`${place}: ${firstLine(message)}`];
  return failures.map((test) => `${place} > ${test.fullName}: ${firstLine(test.failureMessages.join("\n"))}`);
}

function firstLine(text = "") {
  return text.split("\n", 1)[0];
}
