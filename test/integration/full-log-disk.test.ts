// A log that can't be written, as on a full disk: the service answers, reloads and ends as if it could.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test, vi } from "vitest";
import { PROGRAM, requireProgram } from "../support/built-program.ts";
import { ownProcess } from "../support/child-processes.ts";
import { freePort } from "../support/redis-server.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

/** Only for a service that never does it: a busy machine may take long. */
const DONE_MS = 45_000;
vi.setConfig({ testTimeout: 3 * DONE_MS });

beforeAll(requireProgram);

test.each(["1", "2"])("with WORKERS=%s the service answers, reloads, and ends with 0 at SIGTERM", async (WORKERS) => {
  const rulesDir = temporaryFolder("headgate-full-log");
  const write = (domain: string) => {
    // Renamed in, so that nobody reads half a file.
    writeFileSync(
      join(rulesDir, "beside"),
      `domain: ${domain}\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 1 } }]\n`,
    );
    renameSync(join(rulesDir, "beside"), join(rulesDir, "rules.yaml"));
  };
  write("first");
  const port = await freePort();
  const full = openSync("/dev/full", "w");
  const child = ownProcess(
    spawn(process.execPath, [...PROGRAM, "serve"], {
      env: {
        PATH: process.env.PATH ?? "",
        HOST: "127.0.0.1",
        PORT: String(port),
        GRPC_HOST: "127.0.0.1",
        GRPC_PORT: "0",
        RULES_DIR: rulesDir,
        SHUTDOWN_DELAY: "0s",
        LOG_LEVEL: "debug",
        WORKERS,
      },
      stdio: ["ignore", full, "inherit"],
    }),
  );
  closeSync(full);
  const rules = async () =>
    await fetch(`http://127.0.0.1:${port}/rlconfig`).then(
      (answer) => answer.text(),
      () => "",
    );
  await vi.waitFor(async () => expect(await rules()).toContain("first.a"), { timeout: DONE_MS, interval: 100 });
  write("second");
  child.kill("SIGHUP");
  await vi.waitFor(async () => expect(await rules()).toContain("second.a"), { timeout: DONE_MS, interval: 100 });
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});
