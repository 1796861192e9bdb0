// Envoy as a process of its own, on ports that it picks itself, with its access log and its counters to read.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ownProcess, showOnFailure } from "../../support/child-processes.ts";
import { endWithTest } from "../../support/ends.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { ENVOY_BIN } from "./require-envoy.ts";

const START_MS_MAX = 10_000;
const STOP_MS_MAX = 3_000;
const LOG_MS_MAX = 3_000;

/** A line of the access log: whatever the listener's format names. */
export type AccessLine = Readonly<Record<string, unknown>>;

/** A running Envoy. */
export class Envoy {
  readonly #child: ChildProcess;
  readonly #directory: string;
  readonly #adminUrl: string;
  readonly #ports: ReadonlyMap<string, number>;

  private constructor(child: ChildProcess, directory: string, adminUrl: string, ports: ReadonlyMap<string, number>) {
    this.#child = child;
    this.#directory = directory;
    this.#adminUrl = adminUrl;
    this.#ports = ports;
  }

  /**
   * Starts it with a bootstrap (YAML, or JSON, which is YAML too). Listeners and admin should ask for port 0;
   * `ACCESS_LOG` in the text becomes the path of the access log. Rejects with Envoy's own words if it does not start.
   */
  static async start(bootstrap: string): Promise<Envoy> {
    const directory = temporaryFolder("headgate-envoy");
    const config = join(directory, "envoy.yaml");
    const adminFile = join(directory, "admin");
    const accessLog = join(directory, "access.log");
    writeFileSync(config, bootstrap.replaceAll("ACCESS_LOG", accessLog));
    // What is logged to standard output is there, too.
    const output = openSync(accessLog, "a");
    const args = ["-c", config, "--disable-hot-restart", "--concurrency", "1", "-l", "error"];
    args.push("--file-flush-interval-msec", "20", "--admin-address-path", adminFile, "--drain-time-s", "0");
    const child = ownProcess(spawn(ENVOY_BIN, args, { stdio: ["ignore", output, "pipe"] }));
    closeSync(output);
    const said: string[] = [];
    showOnFailure("Envoy", () => said.join(""));
    child.stderr?.on("data", (chunk: Buffer) => said.push(chunk.toString()));
    try {
      const adminUrl = await whenReady(child, adminFile);
      const envoy = new Envoy(child, directory, adminUrl, await portsOf(adminUrl));
      endWithTest(() => envoy.stop());
      return envoy;
    } catch (cause) {
      child.kill("SIGKILL");
      throw new Error(`Envoy did not start: ${said.join("").slice(-4_000)}`, { cause });
    }
  }

  /** The port of a listener. */
  port(listener: string): number {
    const port = this.#ports.get(listener);
    if (port === undefined) throw new Error(`Envoy has no listener ${listener}`);
    return port;
  }

  /** The line of the access log about the request with this path, as soon as it is written. */
  async accessLine(path: string): Promise<AccessLine> {
    return (await this.accessLines(path, 1))[0] as AccessLine;
  }

  /** All lines of the access log about this path, once there are so many. */
  async accessLines(path: string, count: number): Promise<AccessLine[]> {
    const endMs = performance.now() + LOG_MS_MAX;
    let found: AccessLine[] = [];
    while (performance.now() < endMs) {
      const lines = this.accessText().split("\n").slice(0, -1);
      found = lines.map((line) => JSON.parse(line) as AccessLine).filter((line) => line.path === path);
      if (found.length >= count) return found;
      await sleep(20);
    }
    throw new Error(`the access log has ${found.length} lines about ${path}, expected ${count}`);
  }

  /** Every line of the access log so far, as text. */
  accessText(): string {
    return readFileSync(join(this.#directory, "access.log"), "utf8");
  }

  /** The counters and gauges whose names begin so. */
  async counters(prefix: string): Promise<Readonly<Record<string, number>>> {
    const filter = `^${prefix.replaceAll(".", "\\.")}`;
    const text = await (await fetch(`${this.#adminUrl}/stats?filter=${encodeURIComponent(filter)}`)).text();
    const pairs = text
      .trim()
      .split("\n")
      .filter((line) => line.includes(": "));
    return Object.fromEntries(
      pairs.map((line) => line.split(": ") as [string, string]).map(([k, v]) => [k.slice(prefix.length), Number(v)]),
    );
  }

  /** Ends it at once, with all that is under way. */
  async kill(): Promise<void> {
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exited;
    await this.stop();
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exited = once(this.#child, "exit");
      this.#child.kill("SIGTERM");
      const timer = setTimeout(() => this.#child.kill("SIGKILL"), STOP_MS_MAX);
      await exited;
      clearTimeout(timer);
    }
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

async function whenReady(child: ChildProcess, adminFile: string): Promise<string> {
  const endMs = performance.now() + START_MS_MAX;
  while (performance.now() < endMs) {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}`);
    try {
      const url = `http://${readFileSync(adminFile, "utf8").trim()}`;
      if ((await fetch(`${url}/ready`)).ok) return url;
    } catch {
      // The file is not there yet, or nothing listens: asked again in a moment.
    }
    await sleep(20);
  }
  throw new Error(`it was not ready within ${START_MS_MAX} ms`);
}

async function portsOf(adminUrl: string): Promise<Map<string, number>> {
  const answer = (await (await fetch(`${adminUrl}/listeners?format=json`)).json()) as {
    listener_statuses: { name: string; local_address: { socket_address?: { port_value: number } } }[];
  };
  return new Map(
    answer.listener_statuses.map(({ name, local_address: at }) => [name, at.socket_address?.port_value ?? 0]),
  );
}
