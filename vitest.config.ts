import { defineConfig } from "vitest/config";

const LONG = "test/**/*.long.test.ts";
const EVERYWHERE = {
  setupFiles: ["test/support/each-file.ts"],
  // A test that needs a second try is wrong or has found something.
  retry: 0,
};
const RUN = "test/support/test-run.ts";

// "unit" computes and opens no socket; "servers" starts real servers and mostly waits for them; "long" is what takes minutes
// of real time: whole clusters, long schedules. `npm test` leaves out "long", `npm run test:all` has all.
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...EVERYWHERE,
          name: "unit",
          include: ["test/{unit,property,contract,tidy,fuzz}/**/*.test.ts"],
          exclude: ["test/**/*.server.test.ts", LONG],
          globalSetup: [RUN],
          // The slowest take a second or two of a quiet machine; this is for the others.
          testTimeout: 20_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...EVERYWHERE,
          name: "servers",
          include: ["test/{lua,integration,fault}/**/*.test.ts", "test/**/*.server.test.ts"],
          exclude: [LONG],
          globalSetup: [RUN, "test/support/require-redis.ts"],
          testTimeout: 30_000,
          hookTimeout: 30_000,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...EVERYWHERE,
          name: "long",
          include: [LONG],
          globalSetup: [RUN, "test/support/require-redis.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
