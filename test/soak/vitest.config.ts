// The soak alone: minutes of real time, with what it prints shown as it comes.

import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    name: "soak",
    include: ["test/soak/**/*.test.ts"],
    globalSetup: ["test/support/require-redis.ts"],
    disableConsoleIntercept: true,
    testTimeout: 0,
    // In real time, on machines that others use too: what is broken fails twice.
    retry: 1,
  },
});
