import { defineConfig } from "vitest/config";

// "unit" is quick and opens no socket; "servers" starts real Redis servers and listens on free ports.
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["test/{unit,property,contract,tidy}/**/*.test.ts"],
          exclude: ["test/**/*.server.test.ts"],
        },
      },
      {
        test: {
          name: "servers",
          include: ["test/{lua,integration,fault}/**/*.test.ts", "test/**/*.server.test.ts"],
          globalSetup: ["test/support/require-redis.ts"],
          testTimeout: 30_000,
          hookTimeout: 30_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
