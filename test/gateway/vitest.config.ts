// `npm run test:gateway`: real HTTP through Envoy Gateway's Envoy, with limits that the gateway feeds by xDS. Apart from the other
// projects, because it needs programs that are built for minutes; where they can't be had its tests are skipped, said aloud.

import { defineConfig } from "vitest/config";
import { FROM_SOURCES } from "../support/from-sources.ts";

export default defineConfig({
  ssr: FROM_SOURCES,
  test: {
    name: "gateway",
    reporters: ["default", "./test/support/run-reporter.ts"],
    include: ["test/gateway/**/*.test.ts"],
    setupFiles: ["test/support/each-file.ts"],
    globalSetup: ["test/support/test-run.ts", "test/gateway/support/require-gateway.ts"],
    retry: 0,
    expect: { poll: { timeout: 20_000 } },
    // Only for what never ends.
    testTimeout: 120_000,
    // Another test bed on the machine is waited for.
    hookTimeout: 900_000,
    // The gateway's ports are fixed.
    fileParallelism: false,
  },
});
