// What becomes of workers whose supervisor is killed while they start: they must end, at whatever moment that was.

import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, test } from "vitest";
import { spawnService } from "../support/service-process.ts";

/** Seen by every process that a test starts, so that those of a killed supervisor can be found. */
const MARK = "HEADGATE_TEST_RUN";

let silent: Server;
const sockets = new Set<Socket>();

// A Redis that takes connections and says nothing keeps workers in their start for as long as a test needs.
beforeAll(async () => {
  silent = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
  }).listen(0, "127.0.0.1");
  await once(silent, "listening");
});
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  silent.close();
});

/** Processes that carry the mark and still run. */
function marked(mark: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const isZombie = readFileSync(`/proc/${pid}/stat`, "utf8")
          .replace(/^.*\) /s, "")
          .startsWith("Z");
        return !isZombie && readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes(`${MARK}=${mark}`);
      } catch {
        return false;
      }
    });
}

function start(mark: string, env: Readonly<Record<string, string>>): ChildProcess {
  return spawnService({ WORKERS: "2", [MARK]: mark, ...env }, { stdio: "ignore" });
}

const silentRedis = () => ({ REDIS_URL: `127.0.0.1:${(silent.address() as AddressInfo).port}` });

// Promise(processes): Workers whose supervisor dies end by themselves, even while they start.
test.concurrent.for([0, 40, 80, 160, 320, 640])(
  "a supervisor killed %i ms after its first worker was there leaves nobody",
  async (delayMs, { expect }) => {
    const mark = `orphans-${process.pid}-${delayMs}`;
    const supervisor = start(mark, silentRedis());
    try {
      await expect.poll(() => marked(mark).length, { timeout: 50_000, interval: 5 }).toBeGreaterThan(1);
      await sleep(delayMs);
      supervisor.kill("SIGKILL");
      await expect.poll(() => marked(mark), { timeout: 20_000 }).toEqual([]);
    } finally {
      // Of this test alone: the others run at the same time.
      for (const pid of marked(mark)) process.kill(pid, "SIGKILL");
    }
  },
);
