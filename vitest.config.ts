import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { FROM_SOURCES } from "./test/support/from-sources.ts";
import { LongestFirst } from "./test/support/longest-first.ts";

const CORES = availableParallelism();
const SERVER = "{test,packages/*/test}/**/*.server.test.ts";
const LONG = "{test,packages/*/test}/**/*.long.test.ts";
const RUN = "test/support/test-run.ts";
const SERVERS = ["redis", "postgres"].map((name) => `test/support/require-${name}.ts`);
/** Services start in hundreds; none needs its first calls to be fast. */
const env = { SHORT_WARM_UP: "1" };
const EVERYWHERE = {
  setupFiles: ["test/support/each-file.ts"],
  // A test that needs a second try is wrong or has found something.
  retry: 0,
  // Only for what never comes: a busy machine may take long.
  expect: { poll: { timeout: 20_000 } },
};

// "unit" computes and opens no socket; "servers" starts real servers and mostly waits for them, so several files at a time;
// "long" is what takes too long for every run: whole clusters, long schedules. `npm test` leaves it out, `npm run test:all` has all.
export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    reporters: ["default", "./test/support/run-reporter.ts"],
    projects: [
      {
        ssr: FROM_SOURCES,
        test: {
          ...EVERYWHERE,
          name: "unit",
          include: ["test/{unit,property,contract,explore,tidy,fuzz}/**/*.test.ts", "packages/*/test/**/*.test.ts"],
          exclude: [SERVER, LONG],
          globalSetup: [RUN],
          // Most of a file's time would go into a process of its own and loading the same modules again.
          isolate: false,
          maxWorkers: CORES,
          // Only for what never ends: a test that is given up goes on beside the next file of its worker.
          testTimeout: 120_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        ssr: FROM_SOURCES,
        test: {
          ...EVERYWHERE,
          name: "servers",
          env,
          include: ["test/{lua,integration,fault}/**/*.test.ts", SERVER],
          exclude: [LONG],
          globalSetup: [RUN, ...SERVERS],
          // As above.
          isolate: false,
          // Half of what they do is waiting.
          maxWorkers: CORES + 2,
          // Only for what never ends.
          testTimeout: 120_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        ssr: FROM_SOURCES,
        test: {
          ...EVERYWHERE,
          name: "long",
          env,
          include: [LONG],
          globalSetup: [RUN, ...SERVERS],
          maxWorkers: CORES + 1,
          testTimeout: 180_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
