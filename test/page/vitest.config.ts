// `npm run test:page`: the operator's page in a real Chromium. Apart from the other projects, because it needs that browser,
// which support/require-chromium.ts finds or installs.

import { defineConfig } from "vitest/config";
import { FROM_SOURCES } from "../support/from-sources.ts";

export default defineConfig({
  ssr: FROM_SOURCES,
  test: {
    name: "page",
    reporters: ["default", "./test/support/run-reporter.ts"],
    include: ["test/page/**/*.test.ts"],
    setupFiles: ["test/support/each-file.ts"],
    globalSetup: ["test/support/test-run.ts", "test/support/require-redis.ts", "test/page/support/require-chromium.ts"],
    retry: 0,
    expect: { poll: { timeout: 60_000 } },
    // Only for what never ends.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // A browser each, and the machine may have two cores.
    maxWorkers: 2,
  },
});
