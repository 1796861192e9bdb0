// `npm run test:envoy`: tests that send real HTTP through a real Envoy. Apart from the other projects, because they need
// Envoy's binary, which support/require-envoy.ts fetches.

import { defineConfig } from "vitest/config";
import { FROM_SOURCES } from "../support/from-sources.ts";

export default defineConfig({
  ssr: FROM_SOURCES,
  test: {
    name: "envoy",
    reporters: ["default", "./test/support/run-reporter.ts"],
    include: ["test/envoy/**/*.test.ts"],
    setupFiles: ["test/support/each-file.ts"],
    globalSetup: ["test/support/test-run.ts", "test/support/require-redis.ts", "test/envoy/support/require-envoy.ts"],
    retry: 0,
    expect: { poll: { timeout: 15_000 } },
    // Only for what never ends.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // They measure what happens within 20 ms, and the machine may have two cores.
    fileParallelism: false,
  },
});
