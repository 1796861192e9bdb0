// A worker as the supervisor sees it: its process, its open listeners, its connections, and its last reports.

import { type ChildProcess, fork } from "node:child_process";
import type { Socket } from "node:net";
import { ConfigError } from "../../engine/base/errors.ts";
import { RULE_METRICS } from "../../operate/telemetry/metrics.ts";
import { type Counts, readCounts } from "../../operate/telemetry/sum-pages.ts";
import type { PageWorker } from "./fleet-page.ts";
import type { FromWorker, ListenerName, PartNotesRecord, ToWorker, WorkerReport, WorkerView } from "./messages.ts";

/** How a process ended. */
export interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

interface WorkerOptions {
  readonly number: number;
  /** The program, which is run as `FILE worker`. */
  readonly file: string;
  /** The worker's environment with its secrets, which this process has removed from its own. */
  readonly env: Readonly<NodeJS.ProcessEnv>;
  readonly ports: Readonly<Partial<Record<ListenerName, number>>>;
  readonly startedUs: number;
  readonly onMessage: (message: FromWorker, worker: WorkerProcess) => void;
  /** Called once, when the process has ended. */
  readonly onEnd: (end: End, worker: WorkerProcess) => void;
}

export class WorkerProcess implements PageWorker {
  readonly number: number;
  readonly startedUs: number;
  readonly #child: ChildProcess;
  readonly #open = new Set<ListenerName>();
  readonly #held = new Map<ListenerName, number>();
  /** Connections on their way to the worker. Node sends one at a time and waits for its acknowledgement. */
  readonly #onTheirWay = new Set<Socket>();
  #saidOfOthers = "";
  troubles: PartNotesRecord = {};
  notes: PartNotesRecord = {};
  report: WorkerReport | undefined;
  /** Why the worker could not start, or why it was killed. */
  failure: { readonly message: string; readonly isOurs: boolean } | undefined;
  lastPage = "";
  readonly counted: Counts = new Map();
  lastGiven = 0;
  /** Looks at it since its last report. */
  silentLooks = 0;
  /** Looks at it during its start. */
  startingLooks = 0;
  #isAlive = true;

  constructor({ number, file, env, ports, startedUs, onMessage, onEnd }: WorkerOptions) {
    this.number = number;
    this.startedUs = startedUs;
    // Two processes can't share a debugger's port; the supervisor keeps it.
    const execArgv = process.execArgv.filter((flag) => !flag.startsWith("--inspect"));
    this.#child = fork(file, ["worker"], { execArgv, env: { ...env } });
    this.#child.on("message", (message) => this.#hear(message as FromWorker, onMessage));
    const end = (code: number | null, signal: NodeJS.Signals | null) => {
      if (!this.#isAlive) return;
      this.#isAlive = false;
      this.#open.clear();
      for (const socket of this.#onTheirWay) socket.destroy();
      onEnd({ code, signal }, this);
    };
    this.#child.once("exit", end);
    this.#child.on("error", (error) => {
      this.failure ??= { message: error.message, isOurs: true };
      if (this.#child.pid === undefined) end(null, null);
    });
    this.send({ kind: "start", number, ports });
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  /** Open connections of the gRPC port. */
  get connections(): number {
    return this.heldAt("grpc");
  }

  get openStreams(): number {
    return this.report?.openStreams ?? 0;
  }

  /** Connections that the worker was given at a listener and that have not ended. */
  heldAt(listener: ListenerName): number {
    return this.#held.get(listener) ?? 0;
  }

  takesAt(listener: ListenerName): boolean {
    return this.#open.has(listener);
  }

  /** Whether it takes calls. */
  get serves(): boolean {
    return this.takesAt("grpc");
  }

  get showsPages(): boolean {
    return this.#isAlive && this.takesAt("http");
  }

  send(message: ToWorker): void {
    // A worker whose channel is closed is about to end and needs no message.
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }

  /** Sends a message and resolves when it is on its way: a long text must not pile up in this process. */
  sendWhole(message: ToWorker): Promise<void> {
    return new Promise((resolve) => {
      if (this.#child.connected) this.#child.send(message, () => resolve());
      else resolve();
    });
  }

  /** Passes a connection on to the worker. */
  give(listener: ListenerName, socket: Socket): void {
    this.#held.set(listener, this.heldAt(listener) + 1);
    this.#onTheirWay.add(socket);
    // This process's copy stays open until the worker has its own. If the worker dies before that, closing the copy has the caller
    // connect again.
    this.#child.send({ kind: "connection", listener } satisfies ToWorker, socket, { keepOpen: true }, () => {
      this.#onTheirWay.delete(socket);
      socket.destroy();
    });
  }

  /** Tells the worker what the others report, if that has changed. */
  tellOthers(others: { readonly troubles: PartNotesRecord; readonly notes: PartNotesRecord }): void {
    const said = JSON.stringify(others);
    if (said === this.#saidOfOthers) return;
    this.#saidOfOthers = said;
    this.send({ kind: "others", ...others });
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  view(): WorkerView {
    const isReady = Object.keys(this.troubles).length === 0;
    const status = !this.serves ? "starting" : isReady ? "ready" : "not ready";
    return { worker: this.number, pid: this.pid, status, connections: this.connections, ...this.report };
  }

  #count({ text, isAfresh }: Extract<FromWorker, { kind: "counts" }>): void {
    if (isAfresh) for (const { name } of Object.values(RULE_METRICS)) this.counted.delete(name);
    readCounts(text, this.counted);
  }

  #hear(message: FromWorker, pass: (message: FromWorker, worker: WorkerProcess) => void): void {
    if (message.kind === "open") this.#open.add(message.listener);
    else if (message.kind === "close") this.#open.delete(message.listener);
    else if (message.kind === "left") this.#held.set(message.listener, Math.max(0, this.heldAt(message.listener) - 1));
    else if (message.kind === "report") {
      this.report = message.report;
      this.silentLooks = 0;
    } else if (message.kind === "counts") this.#count(message);
    else if (message.kind === "failed") this.failure = message;
    else if (message.kind === "health") {
      this.troubles = message.troubles;
      this.notes = message.notes;
    }
    pass(message, this);
  }
}

/** The error of a start that failed because of this worker: its own report, or how its process ended. */
export function startError({ number, failure }: WorkerProcess, { code, signal }: End): Error {
  if (failure !== undefined && !failure.isOurs) return new ConfigError("CONFIG_SETTINGS", failure.message);
  const how = failure?.message ?? (signal === null ? `it ended with ${code}` : `${signal} ended it`);
  return new Error(`worker ${number} could not start: ${how}`);
}
