// Set up in every test file: how generated tests draw, what is shown of servers when a test fails, and that what was started ends.
//
// Generated histories differ from run to run, so that they keep finding things; but not at the gate, which must say the same of
// the same code twice. TEST_SEED draws again what a failure has shown. A seed that finds something is kept as a replayed history.

import { readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { endProcesses, endsOfLogs, forgetLogs } from "./child-processes.ts";
import { fileEnds, testBegins, testEnds } from "./ends.ts";
import { GIVEN_SEED, saidSeed } from "./run-seed.ts";
import { runs } from "./runs.ts";
import { removeFolders } from "./temporary-folder.ts";

const FAST_CHECK_RUNS = 100;

fc.configureGlobal({ numRuns: runs(FAST_CHECK_RUNS), ...(GIVEN_SEED === undefined ? {} : { seed: GIVEN_SEED }) });

beforeAll(forgetLogs);
beforeEach(({ onTestFailed }) => {
  testBegins();
  onTestFailed(() => {
    process.stderr.write(saidSeed() + endsOfLogs());
  });
});

/**
 * Addresses that tests may add before their garbage is collected: each memory store reserves memory, which goes with its garbage, and a
 * fork fails with ENOMEM if reservations lie side by side and exceed the machine's memory, although they take none.
 */
const ADDED_ADDRESSES_MAX = 2_000_000_000;
/** The real one: tests may move the time of timers by hand. */
const { setTimeout: wait } = globalThis;
/** Collections until what is left counts as kept. */
const TURNS_MAX = 5;
/** Bytes of addresses after the last collection. Kept over the files of a process: each adds less than the most, and all together much more. */
const KEPT = Symbol.for("headgate.addresses");
const shared = globalThis as { [KEPT]?: number };
shared[KEPT] ??= addresses();
setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;
let collecting: Promise<void> | undefined;

// Within a test, too: a generated one makes hundreds of stores, and others start programs after it.
const watch = setInterval(() => void collectIfMany(), 20).unref();

beforeAll(collectIfMany);
afterEach(async () => {
  await testEnds();
  await collectIfMany();
});
afterAll(async () => {
  clearInterval(watch);
  await fileEnds();
  await collectIfMany();
  await endProcesses();
  removeFolders();
});

async function collectIfMany(): Promise<void> {
  const most = (shared[KEPT] ?? 0) + ADDED_ADDRESSES_MAX;
  if (addresses() < most) return;
  collecting ??= collect(most);
  await collecting;
  collecting = undefined;
}

async function collect(most: number): Promise<void> {
  for (let turn = 0; turn < TURNS_MAX && addresses() >= most; turn++) {
    collectGarbage();
    await new Promise((resolve) => wait(resolve, 5)); // V8 frees in the background what it has collected
  }
  shared[KEPT] = addresses();
}

/** Bytes of this process's addresses. */
function addresses(): number {
  return Number(readFileSync("/proc/self/statm", "latin1").split(" ")[0]) * 4_096;
}
