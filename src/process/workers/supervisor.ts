// The main thread when WORKERS is above 1: listens, starts the workers as threads, hands them connections, replaces those that end or
// hang, and has them reload and stop. It decides no call and has no store.

import type { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "../../engine/base/clock.ts";
import { reserveCounts } from "../../engine/base/count-layout.ts";
import { ConfigError } from "../../engine/base/errors.ts";
import { START } from "../../engine/base/health.ts";
import { SharedCounts } from "../../engine/base/shared-counts.ts";
import { newRuntimeTable, RuntimeTable, type SharedRuntimeTable } from "../../engine/runtime/runtime-table.ts";
import type { Logger } from "../../operate/telemetry/logger.ts";
import type { OpenMemory } from "../open-memory.ts";
import { sayListening } from "../say-listening.ts";
import type { Settings } from "../settings.ts";
import { chooseWorker } from "./choose-worker.ts";
import { joinHealth, workersForCalls } from "./fleet-health.ts";
import { type AllAnswers, type FromWorker, LISTENER_NAMES, type ListenerName, type Question } from "./messages.ts";
import { RestartPace } from "./restart-pace.ts";
import { addressOf, goOnWithout, listenError, SharedListener } from "./shared-listener.ts";
import { MAIN, SharedNumbers } from "./shared-numbers.ts";
import { WorkerThread } from "./worker-thread.ts";

const LOOK_MS = 1_000;
/**
 * A serving worker without a sign of life for this many looks is stuck, with all its connections, and is ended. Looks are counted rather
 * than time: on a machine that was suspended no worker could give a sign.
 */
const SILENT_LOOKS_MAX = 10;
/**
 * A worker that does not serve after this many looks is stuck in its start, and is ended too. A start takes a second or two, even while
 * the store is down. The startup probe in deploy/ allows 60 s, too.
 */
const STARTING_LOOKS_MAX = 60;
/** Extra time for a worker to end, beyond what the settings allow. */
const END_SLACK_MS = 5_000;

interface SupervisorOptions {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
  /** Number of workers to run. */
  readonly count: number;
  /** The program of a worker's thread. */
  readonly file: URL;
  /** The environment of the workers. */
  readonly env: Readonly<NodeJS.ProcessEnv>;
  /** The memory store's memory, which is repaired when a thread ends. */
  readonly memory?: OpenMemory | undefined;
}

/** Settles the promise of `start`. */
interface Start {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #numbers: SharedNumbers;
  readonly #counts: SharedArrayBuffer;
  readonly #runtime: SharedRuntimeTable;
  readonly #listeners = new Map<ListenerName, SharedListener>();
  readonly #ports: Partial<Record<ListenerName, number>> = {};
  readonly #workers = new Map<number, WorkerThread>();
  readonly #paces: readonly RestartPace[];
  readonly #restarts = new Set<NodeJS.Timeout>();
  #look: NodeJS.Timeout | undefined;
  /** Defined until all workers have served once. */
  #start: Start | undefined;
  #isStopping = false;
  #willTell = false;
  #whenEmpty: (() => void) | undefined;
  #given = 0;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#numbers = new SharedNumbers(options.count);
    this.#counts = reserveCounts(options.count);
    this.#runtime = newRuntimeTable(options.settings.runtimeLimitsMax);
    this.#paces = Array.from({ length: options.count }, () => new RestartPace());
    for (const name of LISTENER_NAMES) {
      const address = addressOf(name, options.settings);
      const give = (socket: Socket) => this.#give(name, socket);
      if (address !== undefined) this.#listeners.set(name, new SharedListener(address, give));
    }
  }

  /**
   * Listens and starts the workers; resolves when all of them serve. Rejects with ConfigError if an address is taken, or if settings
   * can't be used.
   */
  async start(): Promise<void> {
    const { count, settings, logger } = this.#options;
    await this.#openPages();
    this.#look = setInterval(() => this.#endStuck(), LOOK_MS);
    try {
      await new Promise<void>((resolve, reject) => {
        this.#start = { resolve, reject };
        for (let number = 1; number <= count; number++) this.#begin(number);
      });
    } catch (error) {
      this.#isStopping = true;
      clearInterval(this.#look);
      this.#kill();
      this.#closeListeners();
      throw error;
    } finally {
      this.#start = undefined;
    }
    // A worker must know that all serve before anybody is sent to it.
    this.#tellHealth();
    await nextTurn();
    sayListening(settings, this.#ports, logger, count);
  }

  /** Has every worker read the rule files now. */
  async reload(): Promise<void> {
    for (const worker of this.#workers.values()) worker.send({ kind: "reload" });
  }

  /** Stops every worker in order, as App.stop does; resolves when the last one has ended. */
  async stop({ delays }: { readonly delays: boolean }): Promise<void> {
    const { settings } = this.#options;
    this.#isStopping = true;
    clearInterval(this.#look);
    for (const restart of this.#restarts) clearTimeout(restart);
    for (const worker of this.#workers.values()) worker.send({ kind: "stop", delays });
    const boundMs = (delays ? settings.shutdownDelayMs : 0) + 2 * settings.shutdownGraceMs + END_SLACK_MS;
    const giveUp = setTimeout(() => this.#kill(), boundMs);
    if (this.#workers.size > 0) await new Promise<void>((resolve) => (this.#whenEmpty = resolve));
    clearTimeout(giveUp);
    this.#closeListeners();
  }

  #kill(): void {
    for (const worker of this.#workers.values()) worker.kill();
  }

  #all(): WorkerThread[] {
    return [...this.#workers.values()].sort((one, other) => one.number - other.number);
  }

  async #openPages(): Promise<void> {
    for (const name of ["http", "debug", "metrics"] as const) {
      const listener = this.#listeners.get(name);
      if (listener === undefined) continue;
      try {
        this.#ports[name] = await listener.open();
      } catch (error) {
        goOnWithout(name, listener.address, error, this.#options.logger);
      }
    }
  }

  #begin(number: number): void {
    const { file, env, clock, version, memory } = this.#options;
    // The gRPC port opens when the first worker serves, and the worker learns its number then.
    const ports = { ...this.#ports, grpc: 0 };
    const worker = new WorkerThread({
      data: {
        number,
        ports,
        version,
        numbers: this.#numbers.buffer,
        counts: this.#counts,
        memory: memory?.shared,
        runtime: this.#runtime,
      },
      file,
      env,
      startedUs: clock.nowUs(),
      onMessage: (message, from) => this.#hear(message, from),
      onEnd: (code, ended) => this.#ended(ended, code),
    });
    this.#workers.set(number, worker);
    this.#tellHealth();
  }

  #hear(message: FromWorker, worker: WorkerThread): void {
    switch (message.kind) {
      case "open":
        void this.#opened(message.listener, worker);
        break;
      case "close":
        this.#closeUnlessTaken(message.listener);
        this.#tellHealth();
        break;
      case "health":
        this.#tellHealth();
        this.#checkStart();
        break;
      case "ask":
        void this.#askAll(message.question).then((answer) => worker.send({ kind: "answer", id: message.id, answer }));
        break;
    }
  }

  async #askAll(question: Question): Promise<AllAnswers> {
    const asked = this.#all().filter(({ showsPages }) => showsPages);
    const answers = await Promise.all(
      asked.map(async (worker) => [worker.number, await worker.ask(question)] as const),
    );
    return new Map(answers.filter(([, answer]) => answer !== undefined));
  }

  async #opened(name: ListenerName, worker: WorkerThread): Promise<void> {
    const grpc = this.#listeners.get("grpc");
    try {
      if (name === "grpc") this.#ports.grpc = (await grpc?.open()) ?? 0;
    } catch (error) {
      this.#start?.reject(error instanceof Error && grpc ? listenError("grpc", grpc.address, error) : error);
      return;
    }
    worker.send({ kind: "opened", listener: name, port: this.#ports[name] ?? 0 });
    if (name !== "grpc") return;
    this.#options.logger.debug({ number: worker.number }, "a worker serves");
    this.#tellHealth();
    this.#checkStart();
  }

  /** A worker that serves says a moment later that its start is over. */
  #checkStart(): void {
    const started = this.#all().filter(({ serves, troubles }) => serves && troubles[START] === undefined);
    if (started.length === this.#options.count) this.#start?.resolve();
  }

  #give(name: ListenerName, socket: Socket): void {
    // A failure is followed by the socket's close, and the worker notices that.
    socket.on("error", () => undefined);
    const takers = this.#all().filter((worker) => worker.takesAt(name));
    // A worker that still starts knows less than one that serves, so its pages are a last resort.
    const serving = workersForCalls(takers);
    const chosen = chooseWorker(serving.length > 0 ? serving : takers, (worker) => worker.heldAt(name));
    if (chosen === undefined) {
      socket.destroy();
      return;
    }
    chosen.lastGiven = ++this.#given;
    chosen.give(name, socket);
  }

  #endStuck(): void {
    for (const worker of this.#all()) {
      worker.look();
      const { number, serves, silentLooks, startingLooks } = worker;
      if (serves ? silentLooks !== SILENT_LOOKS_MAX : startingLooks !== STARTING_LOOKS_MAX) continue;
      const trouble = serves
        ? "a worker does not respond; ending it"
        : `a worker does not serve ${(STARTING_LOOKS_MAX * LOOK_MS) / 1_000} s after its start; ending it`;
      this.#options.logger.error({ number }, trouble);
      worker.failure ??= new Error(trouble);
      worker.kill();
    }
  }

  // Waits for the end of the turn, so that several changes in one turn are sent once.
  #tellHealth(): void {
    if (this.#willTell) return;
    this.#willTell = true;
    setImmediate(() => {
      this.#willTell = false;
      const all = this.#all();
      // Workers that end in order are not missing.
      const count = this.#isStopping ? all.length : this.#options.count;
      const health = joinHealth(all, { count, isStarting: this.#start !== undefined || this.#isStopping });
      for (const worker of all) worker.tellHealth(health);
    });
  }

  // Refuses clients that connect while the last workers drain, so that they go elsewhere.
  #closeUnlessTaken(name: ListenerName): void {
    if (this.#isStopping && !this.#all().some((worker) => worker.takesAt(name))) this.#listeners.get(name)?.close();
  }

  #ended(worker: WorkerThread, code: number): void {
    const { logger, clock, memory } = this.#options;
    const { number, failure } = worker;
    memory?.endThread(number);
    new RuntimeTable(this.#runtime, number).endThread();
    if (this.#workers.get(number) === worker) this.#workers.delete(number);
    new SharedCounts(this.#counts, -1).release(number - 1);
    if (this.#isStopping) {
      if (code !== 0) logger.warn({ number, code, err: failure }, "a worker exited abnormally");
      if (this.#workers.size === 0) this.#whenEmpty?.();
      return;
    }
    if (this.#start !== undefined) {
      this.#start.reject(startError(worker, code));
      return;
    }
    this.#tellHealth();
    const pauseMs = (this.#paces[number - 1] as RestartPace).pauseAfter(clock.nowUs() - worker.startedUs);
    this.#numbers.add(MAIN, "restarts", 1);
    logger.error({ number, code, err: failure, pause_ms: pauseMs }, "a worker exited; replacing it");
    const restart = setTimeout(() => {
      this.#restarts.delete(restart);
      this.#begin(number);
    }, pauseMs);
    this.#restarts.add(restart);
  }

  #closeListeners(): void {
    for (const listener of this.#listeners.values()) listener.close();
  }
}

/** The error of a start that failed because of this worker: what it has thrown, or how it ended. */
function startError({ number, failure }: WorkerThread, code: number): Error {
  // An error of another thread keeps its fields but not its class.
  if (failure !== undefined && "code" in failure && failure.code === "CONFIG_SETTINGS")
    return new ConfigError("CONFIG_SETTINGS", failure.message);
  return new Error(`worker ${number} could not start: ${failure?.message ?? `it ended with ${code}`}`, {
    cause: failure,
  });
}
