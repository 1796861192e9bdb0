// What runs in the pods of the Redis overlays of deploy/, as processes of this machine: a pod for each of some loopback
// addresses, with the overlay's own scripts and arguments.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { Redis } from "ioredis";
import { expect } from "vitest";
import { parseAllDocuments } from "yaml";
import { ownProcess, showOnFailure } from "./child-processes.ts";
import { replicasWith, writtenIn } from "./redis-replicas.ts";
import { temporaryFolder } from "./temporary-folder.ts";
import { startTestApp, type TestApp } from "./test-app.ts";

const COMPONENTS = resolve(import.meta.dirname, "../../deploy/kubernetes/components");

interface Container {
  readonly name: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
}

export interface PodOptions {
  /** Folder of deploy/kubernetes/components. */
  readonly component: string;
  readonly host: string;
  /** Variables of all its containers, in addition to SELF. */
  readonly env: Readonly<Record<string, string>>;
  /** Arguments added to those that the container of this name has. */
  readonly more?: Readonly<Record<string, readonly string[]>>;
}

/** The containers of one pod. */
export class RedisPod {
  readonly host: string;
  readonly #options: PodOptions;
  #children: ChildProcess[] = [];
  #folders: string[] = [];

  constructor(options: PodOptions) {
    this.host = options.host;
    this.#options = options;
  }

  get isRunning(): boolean {
    return this.#children.length > 0;
  }

  start(): void {
    for (const { name, command = ["redis-server"], args = [] } of containersOf(this.#options.component)) {
      const more = this.#options.more?.[name] ?? [];
      this.#children.push(this.#spawn([...command, ...args, ...more]));
    }
  }

  /** As a node that goes: at once, and with all that was written there. */
  async kill(): Promise<void> {
    const ended = this.#children.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
    const exits = ended.map((child) => once(child, "exit"));
    for (const child of ended) child.kill("SIGKILL");
    await Promise.all(exits);
    for (const folder of this.#folders) rmSync(folder, { recursive: true, force: true });
    this.#children = [];
    this.#folders = [];
  }

  /** Runs what its container runs before it stops. */
  async handOver(): Promise<void> {
    await once(this.#spawn(["sh", "/scripts/hand-over.sh"]), "exit");
  }

  /** What its liveness probe says: true while the server is as it should be. */
  async isInPlace(): Promise<boolean> {
    const [code] = await once(this.#spawn(["sh", "/scripts/is-in-place.sh"]), "exit");
    return code === 0;
  }

  #spawn(command: readonly string[]): ChildProcess {
    const folder = temporaryFolder("headgate-pod");
    this.#folders.push(folder);
    const scripts = join(COMPONENTS, this.#options.component);
    const [program = "", ...args] = command.map((word) =>
      word.replace(/^\/scripts/, scripts).replace(/\/data\b/, folder),
    );
    const env = { ...process.env, ...this.#options.env, SELF: this.host, DATA_DIR: folder };
    const log = openSync(join(folder, "log"), "a");
    const child = ownProcess(spawn(program, args, { env, cwd: folder, stdio: ["ignore", log, log] }));
    closeSync(log);
    showOnFailure(`${program} ${args.join(" ")}`, () => {
      return existsSync(join(folder, "log")) ? readFileSync(join(folder, "log"), "utf8") : "";
    });
    return child;
  }
}

/** What the server answers, undefined if it does not. */
export async function askRedis(
  host: string,
  port: number,
  ...command: readonly [string, ...string[]]
): Promise<unknown> {
  const client = new Redis({ host, port, lazyConnect: true, retryStrategy: () => null, connectTimeout: 1_000 });
  client.on("error", () => undefined);
  try {
    await client.connect();
    const [name, ...args] = command;
    return await client.call(name, ...args);
  } catch {
    return undefined;
  } finally {
    client.disconnect();
  }
}

/** A service on such pods, told of them by REDIS_URL. */
export function startOnPods(url: string): Promise<TestApp> {
  const rules =
    "domain: edge\ndescriptors: [{ key: user, rate_limit: { requests_per_unit: 1000000, unit: day, algorithm: fixed_window } }]\n";
  return startTestApp(rules, { REDIS_URL: url, STORE_DEADLINE: "500ms", DENIALS_MAX: "0" });
}

/** Counts once more in a bucket of that service, in Redis, as soon as that can be done; resolves to the count. */
export async function countOnPods(app: TestApp, user: string): Promise<number> {
  let remaining = 0;
  await expect
    .poll(
      async () => {
        const reply = await app.hit({ user }, 2_000);
        remaining = reply.statuses[0]?.limit_remaining ?? 0;
        return JSON.stringify(reply.dynamic_metadata ?? {});
      },
      { timeout: 60_000, interval: 100 },
    )
    .not.toContain("degraded");
  return 1_000_000 - remaining;
}

/** Counts the replicas that have what their primary had written when it was first asked about: later come sentinels' own words. */
export class ReplicasInStep {
  readonly #port: number;
  readonly #written = new Map<string, number>();

  constructor(port: number) {
    this.#port = port;
  }

  async of(primary: string): Promise<number> {
    const role = await askRedis(primary, this.#port, "role");
    const written = this.#written.get(primary) ?? writtenIn(role);
    if (written === undefined) return 0;
    this.#written.set(primary, written);
    return replicasWith(role, written);
  }
}

function containersOf(component: string): readonly Container[] {
  const documents = parseAllDocuments(readFileSync(join(COMPONENTS, component, "redis.yaml"), "utf8"));
  const objects = documents.map((document) => document.toJS() as { kind: string; spec: unknown });
  const set = objects.find(({ kind }) => kind === "StatefulSet")?.spec as
    | { template: { spec: { containers: Container[] } } }
    | undefined;
  return set?.template.spec.containers ?? [];
}
