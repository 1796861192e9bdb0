// A process while it starts: it says that it is ready when calls are answered and not before, a taken port ends it at once
// with the reason, and SIGTERM ends it at every moment; with each kind of store, there or not.

import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { connect, createServer } from "node:net";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { listen } from "../support/listen.ts";
import { freePort } from "../support/redis-server.ts";
import { spawnService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { startBareApp } from "../support/test-app.ts";

const ROOT = resolve(import.meta.dirname, "../..");
/** For the process of a test that has failed already: much more than a start takes, even on a busy machine. */
const END_MS = 90_000;

vi.setConfig({ testTimeout: 2 * END_MS });

const folder = temporaryFolder("headgate-starting");
let nobody: number;
/** Accepts, and never says a word. */
let mute: number;

beforeAll(async () => {
  writeFileSync(join(folder, "rules.yaml"), "domain: edge\n");
  nobody = await freePort();
  mute = await listen(createServer((socket) => socket.resume()));
});

/** Settings by kind of store; made late, because ports are known late. */
const STORES: Readonly<Record<string, () => Record<string, string>>> = {
  memory: () => ({}),
  "a Redis that is away": () => ({ REDIS_URL: `127.0.0.1:${nobody}` }),
  "a Redis that says nothing": () => ({ REDIS_URL: `127.0.0.1:${mute}` }),
  "a PostgreSQL that is away": () => ({ POSTGRES_URL: `postgres://u@127.0.0.1:${nobody}/d` }),
  "a PostgreSQL that says nothing": () => ({ POSTGRES_URL: `postgres://u@127.0.0.1:${mute}/d` }),
};
const CASES = Object.entries(STORES).map(([store, env]) => ({ store, env }));

interface Started {
  readonly child: ChildProcess;
  readonly output: () => string;
  /** Exit code, or the signal that ended it. */
  readonly end: Promise<number | string>;
}

function startProcess(env: Readonly<Record<string, string>>, command?: readonly string[]): Started {
  const child = spawnService({ RULES_DIR: folder, ...env }, command === undefined ? {} : { command });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (output += String(chunk)));
  const end = once(child, "close").then(([code, signal]) => (code ?? signal) as number | string);
  return { child, output: () => output, end };
}

/** What the process ended with; it is killed if it has not by END_MS. */
async function endOf({ child, end }: Started): Promise<number | string> {
  const timer = setTimeout(() => child.kill("SIGKILL"), END_MS);
  const how = await end;
  clearTimeout(timer);
  return how;
}

function statusOf(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const request = get({ host: "127.0.0.1", port, path: "/readyz", agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on("error", () => resolve(undefined));
  });
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

describe("/readyz of a process that starts", () => {
  const two = CASES.filter(({ store }) => /memory|Redis that says/.test(store));
  // Promise(processes): `/readyz` answers 200 once calls are answered and the store was asked, and not before.
  test.concurrent.each(two)("with $store says 200 when calls are answered, and not before", async ({ env }) => {
    const [http, grpc] = [await freePort(), await freePort()];
    const own = { SHORT_WARM_UP: "", PORT: String(http), GRPC_PORT: String(grpc) };
    const started = startProcess({ ...env(), ...own });
    const seen: (number | "closed")[] = [];
    // Asked without pause from before the port is open until a while after the process says that it listens.
    for (let after = 0; after < 20; ) {
      if (started.child.exitCode !== null) throw new Error(`it ended: ${started.output()}`);
      const status = await statusOf(http);
      if (status === 200) seen.push((await isOpen(grpc)) ? 200 : "closed");
      else if (status !== undefined) seen.push(status);
      if (started.output().includes('"listening"')) after++;
      await sleep(started.output().includes('"listening"') ? 10 : 1);
    }
    started.child.kill("SIGTERM");
    expect(await endOf(started)).toBe(0);
    const changes = seen.filter((status, i) => status !== seen[i - 1]);
    expect(changes).toEqual(Object.keys(env()).length === 0 ? [503, 200] : [503]);
  });
});

describe("a port that is taken", () => {
  // The HTTP port is tried before anything waits for a store.
  const ports = CASES.slice(1).map((one, i) => ({ port: i === 0 ? "PORT" : "GRPC_PORT", ...one }));
  // Promise(processes): A taken port ends the process with exit code 1 and one sentence.
  test.concurrent.each(ports)(
    "($port) ends the process with 1 and one sentence, with $store",
    async ({ port, env }) => {
      const started = startProcess({ ...env(), [port]: String(mute) });
      expect(await endOf(started)).toBe(1);
      expect(started.output().match(new RegExp(`${mute}.* ${port}`, "g"))).toHaveLength(1);
    },
  );
});

test("bounds of the memory store that the system has no addresses for end the process with 1 and one sentence", async () => {
  const serve = `ulimit -v 12000000; exec '${process.execPath}' '${join(ROOT, "dist/main.js")}' serve`;
  const bounds = { BUCKETS_MAX: "100000000" };
  const started = startProcess(bounds, ["sh", "-c", serve]);
  expect(await endOf(started)).toBe(1);
  expect(started.output()).toMatch(/^CONFIG_SETTINGS: BUCKETS_MAX: expected address space .*ulimit -v\)\n$/);
});

describe("a path of GRPC_UDS that is taken", () => {
  // Promise(processes): A start on a taken path leaves alone what is there: another process's socket, a file, a folder.
  test.each(["a socket that somebody listens on", "a file", "a folder"])(
    "by %s ends the start, and stays",
    async (what) => {
      const path = join(temporaryFolder("headgate-taken"), "grpc.sock");
      const listener = createServer((socket) => socket.end());
      if (what === "a file") writeFileSync(path, "rules");
      else if (what === "a folder") mkdirSync(path);
      else await once(listener.listen(path), "listening");
      await expect(startBareApp({ GRPC_UDS: path })).rejects.toThrow(/gRPC can't listen on \S+ \(GRPC_UDS\)/);
      if (what === "a file") expect(readFileSync(path, "utf8")).toBe("rules");
      else if (what === "a folder") expect(statSync(path).isDirectory()).toBe(true);
      else {
        await once(connect(path), "connect");
        listener.close();
      }
    },
  );
});

describe("SIGTERM while a process starts", () => {
  // From before its first line of code has run until after it listens.
  const moments = [0, 150, 400, 700, 1_200, 2_000].map((afterMs, i) => {
    return { afterMs, ...(CASES.at(-1 - (i % 3)) as (typeof CASES)[number]) };
  });
  // Promise(processes): SIGTERM ends a starting process at every moment, also under `npm start`.
  test.concurrent.each(moments)("after $afterMs ms with $store ends it", async ({ afterMs, env }) => {
    const started = startProcess(env());
    await sleep(afterMs);
    started.child.kill("SIGTERM");
    // Before node has run a line of ours, the signal itself ends the process.
    expect([0, "SIGTERM"]).toContain(await endOf(started));
  });
});

// Promise(processes): SIGTERM ends a starting process at every moment, also under `npm start`.
test("SIGTERM to what `npm start` runs reaches the service", async () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: { start: string } };
  // npm runs a script by a shell, and passes signals on to that shell alone.
  const started = startProcess({}, ["sh", "-c", scripts.start]);
  while (!started.output().includes('"listening"')) await sleep(10);
  started.child.kill("SIGTERM");
  expect(await endOf(started)).toBe(0);
  expect(started.output()).toContain('"done"');
});

// util-linux's script gives a command a terminal, and copies what it prints there.
test.each([
  { on: "a terminal", env: {}, line: /^\d{4}-\S+Z INFO {2}listening /m },
  {
    on: "a terminal with LOG_FORMAT",
    env: { LOG_FORMAT: "json" },
    line: /^\{.*"msg":"listening"/m,
  },
])("the log on $on has lines like $line", async ({ env, line }) => {
  const serve = `exec '${process.execPath}' '${join(ROOT, "dist/main.js")}' serve`;
  const started = startProcess(env, ["script", "-qfec", serve, "/dev/null"]);
  await vi.waitUntil(() => /listening/.test(started.output()), { timeout: END_MS });
  started.child.kill("SIGTERM");
  await endOf(started);
  expect(started.output()).toMatch(line);
});
