import { defineConfig } from "vitest/config";

const SETUP = ["test/support/fix-seed.ts"];

// "unit" is quick and opens no socket; "servers" starts real Redis servers and listens on free ports. One after the other,
// so that tests of real time are not disturbed by work of our own.
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["test/{unit,property,contract,tidy,fuzz}/**/*.test.ts"],
          exclude: ["test/**/*.server.test.ts"],
          setupFiles: SETUP,
          // The slowest take a second or two of a quiet machine; this is for the others.
          testTimeout: 20_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: "servers",
          include: ["test/{lua,integration,fault}/**/*.test.ts", "test/**/*.server.test.ts"],
          setupFiles: SETUP,
          globalSetup: ["test/support/require-redis.ts"],
          testTimeout: 30_000,
          hookTimeout: 30_000,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
          // Faults are staged in real time on machines that others use too: a stall of theirs may look like a fault of
          // ours. What is broken fails three times.
          retry: 2,
        },
      },
    ],
  },
});
