// Called around each test file of a recording run: writes down which functions of src the file's tests have run, and how long they took.

import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { Session } from "node:inspector";
import { join, relative, resolve } from "node:path";
import { expect } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const session = recorder();
let beganMs = 0;

function recorder() {
  const made = new Session();
  made.connect();
  made.post("Profiler.enable");
  made.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  return made;
}

/** Functions that ran since the last question, as a file, `#` and a name. */
function reached() {
  const names = new Set();
  session.post("Profiler.takePreciseCoverage", (_, { result }) => {
    for (const { url, functions } of result) {
      const file = relative(ROOT, url.replace("file://", ""));
      if (!file.startsWith("src/")) continue;
      for (const { functionName, ranges } of functions) if (ranges[0].count > 0) names.add(`${file}#${functionName}`);
    }
  });
  return [...names];
}

export function beginFile() {
  reached();
  beganMs = performance.now();
}

export function endFile() {
  const file = relative(ROOT, expect.getState().testPath);
  const name = createHash("sha1").update(file).digest("hex");
  const record = { file, ms: Math.round(performance.now() - beganMs), reached: reached() };
  writeFileSync(join(process.env.REACH_FOLDER, `${name}.json`), JSON.stringify(record));
}
