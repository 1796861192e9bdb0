// The soak alone: minutes of real time, with what it prints shown as it comes.

import { defineConfig } from "vitest/config";
import { FROM_SOURCES } from "../support/from-sources.ts";

export default defineConfig({
  ssr: FROM_SOURCES,
  test: {
    name: "soak",
    reporters: ["default", "./test/support/run-reporter.ts"],
    include: ["test/soak/**/*.test.ts"],
    setupFiles: ["test/support/each-file.ts"],
    globalSetup: ["test/support/test-run.ts", "test/support/require-redis.ts"],
    disableConsoleIntercept: true,
    retry: 0,
    testTimeout: 0,
  },
});
