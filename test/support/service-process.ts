// The built service as a process of its own, as an operator starts it, on free ports.

import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { PROGRAM, requireProgram } from "./built-program.ts";
import { ownProcess, showOnFailure } from "./child-processes.ts";
import { endWithTest } from "./ends.ts";
import { temporaryFolder } from "./temporary-folder.ts";

/** Only for a service that never comes: a busy machine may take long. */
const START_MS = 45_000;

export interface ServiceProcess {
  readonly pid: number;
  /** 0 when it serves on a Unix socket. */
  readonly grpcPort: number;
  readonly httpPort: number;
  /** 0 without a debug port. */
  readonly debugPort: number;
  /** Lines of the log so far. */
  readonly log: readonly string[];
  /** Sends SIGTERM and resolves to the exit code; null if a signal ended it. */
  stop(): Promise<number | null>;
  signal(signal: NodeJS.Signals): void;
  /** Resolves when it has ended, however: to the exit code, null if a signal ended it. */
  readonly ended: Promise<number | null>;
}

/** How a service is started: the command, by default `node FLAGS dist/main.js serve`, and what `spawn` takes for others. */
interface Start extends Pick<SpawnOptions, "stdio" | "cwd" | "uid" | "gid"> {
  readonly command?: readonly string[];
  readonly flags?: readonly string[];
  /** Text of its rule file. Without it RULES_DIR counts. */
  readonly rules?: string;
}

/** Starts a service on free ports, with nothing of this process's environment. */
export function spawnService(
  env: Readonly<Record<string, string>>,
  { command, flags = [], rules, ...how }: Start = {},
): ChildProcess {
  const rulesDir = rules === undefined ? undefined : temporaryFolder("headgate-rules");
  if (rulesDir !== undefined) writeFileSync(join(rulesDir, "rules.yaml"), rules ?? "");
  if (command === undefined) requireProgram();
  const [program = "", ...args] = command ?? [process.execPath, ...flags, ...PROGRAM, "serve"];
  return ownProcess(
    spawn(program, args, {
      env: {
        PATH: process.env.PATH ?? "",
        TMPDIR: tmpdir(),
        HOST: "127.0.0.1",
        GRPC_HOST: "127.0.0.1",
        PORT: "0",
        GRPC_PORT: "0",
        DEBUG_HOST: "127.0.0.1",
        ...(env.COMPATIBILITY_MODE === "true" ? { DEBUG_PORT: "0" } : {}),
        SHUTDOWN_DELAY: "0s",
        // As in vitest.config.ts.
        SHORT_WARM_UP: "1",
        ...(rulesDir === undefined ? {} : { RULES_DIR: rulesDir }),
        ...env,
      },
      stdio: ["ignore", "pipe", "pipe"],
      ...how,
    }),
  );
}

/** Starts a service; resolves when it listens. */
export async function startService(env: Readonly<Record<string, string>>, start: Start = {}): Promise<ServiceProcess> {
  const child = spawnService(env, start);
  const log: string[] = [];
  showOnFailure(`service ${child.pid}`, () => log.join("\n"));
  const ended = once(child, "exit").then(([code]) => code as number | null);
  const ports = await listening(child, log);
  return {
    pid: child.pid ?? -1,
    ...ports,
    log,
    stop: endWithTest(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
      child.kill("SIGCONT");
      child.kill("SIGTERM");
      const [code] = (await once(child, "exit")) as [number | null];
      return code;
    }),
    signal: (signal) => child.kill(signal),
    ended,
  };
}

interface Ports {
  readonly grpcPort: number;
  readonly httpPort: number;
  readonly debugPort: number;
}

function listening(child: ChildProcess, log: string[]): Promise<Ports> {
  return new Promise((resolve, reject) => {
    const giveUp = (why: string) => reject(new Error(`the service ${why}; its log:\n${log.join("\n")}`));
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      giveUp(`did not listen within ${START_MS} ms`);
    }, START_MS);
    child.once("exit", (code) => {
      clearTimeout(timer);
      giveUp(`ended with ${code} before it listened`);
    });
    const read = (line: string) => {
      log.push(line);
      const ports = portsOf(line);
      if (ports === undefined) return;
      clearTimeout(timer);
      resolve(ports);
    };
    if (child.stdout !== null) createInterface({ input: child.stdout }).on("line", read);
    if (child.stderr !== null) createInterface({ input: child.stderr }).on("line", (line) => log.push(line));
  });
}

function portsOf(line: string): Ports | undefined {
  const match = /"grpc":"(?:[^"]*:(\d+)|[^"]*)","http":"[^"]*:(\d+)"/.exec(line);
  if (match === null) return undefined;
  const debugPort = Number(/"debug":(\d+)/.exec(line)?.[1] ?? 0);
  return { grpcPort: Number(match[1] ?? 0), httpPort: Number(match[2]), debugPort };
}
