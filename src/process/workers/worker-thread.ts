// A worker as the main thread sees it: its thread, open listeners, connections and reported health.

import type { Socket } from "node:net";
import { type TransferListItem, Worker } from "node:worker_threads";
import type { FromWorker, Health, ListenerName, PartNotesRecord, Question, ToWorker, WorkerData } from "./messages.ts";
import { Questions } from "./questions.ts";
import { SharedNumbers } from "./shared-numbers.ts";

/** Longest wait for an answer, in milliseconds. */
const ANSWER_MS_MAX = 2_000;

interface WorkerOptions {
  readonly data: WorkerData;
  /** The program of the thread. */
  readonly file: URL;
  /** The thread's environment with its secrets, which the main thread has removed from its own. */
  readonly env: Readonly<NodeJS.ProcessEnv>;
  readonly startedUs: number;
  readonly onMessage: (message: FromWorker, worker: WorkerThread) => void;
  /** Called once, when the thread has ended. */
  readonly onEnd: (code: number, worker: WorkerThread) => void;
}

export class WorkerThread {
  readonly number: number;
  readonly startedUs: number;
  readonly #thread: Worker;
  readonly #numbers: SharedNumbers;
  readonly #open = new Set<ListenerName>();
  readonly #questions = new Questions((message) => this.send(message), ANSWER_MS_MAX);
  #told = "";
  troubles: PartNotesRecord = {};
  notes: PartNotesRecord = {};
  /** What its thread threw, or why it was ended. */
  failure: Error | undefined;
  lastGiven = 0;
  #beats = 0;
  /** Looks since its last sign of life. */
  silentLooks = 0;
  /** Looks at it during its start. */
  startingLooks = 0;

  constructor({ data, file, env, startedUs, onMessage, onEnd }: WorkerOptions) {
    this.number = data.number;
    this.startedUs = startedUs;
    this.#numbers = new SharedNumbers(data.numbers);
    this.#thread = new Worker(file, { env, workerData: data, name: `worker ${data.number}` });
    this.#thread.on("message", (message: FromWorker) => this.#hear(message, onMessage));
    this.#thread.on("error", (error) => (this.failure ??= error));
    this.#thread.once("exit", (code) => {
      this.#open.clear();
      this.#questions.end();
      this.#numbers.clear(this.number);
      onEnd(code, this);
    });
  }

  get openStreams(): number {
    return this.#numbers.openStreamsOf(this.number);
  }

  /** Connections that the worker was given at a listener and that have not ended. */
  heldAt(listener: ListenerName): number {
    return this.#numbers.of(this.number, listener);
  }

  takesAt(listener: ListenerName): boolean {
    return this.#open.has(listener);
  }

  /** Whether it takes calls. */
  get serves(): boolean {
    return this.takesAt("grpc");
  }

  /** Whether it can be asked: false during its start, when it stops, and after its end. */
  get showsPages(): boolean {
    return this.takesAt("http");
  }

  send(message: ToWorker): void {
    this.#thread.postMessage(message);
  }

  /** Resolves to the worker's answer; to undefined if it gives none in time, or ends. */
  ask(question: Question): Promise<unknown> {
    return this.#questions.ask(question);
  }

  /** Passes a connection on to the worker. */
  give(listener: ListenerName, socket: Socket): void {
    this.#numbers.add(this.number, listener, 1);
    const message: ToWorker = { kind: "connection", listener, socket };
    let isGiven = false;
    try {
      // Not in the types of Node 20.
      this.#thread.postMessage(message, [socket as unknown as TransferListItem]);
      // A socket that was passed on counts as destroyed here.
      isGiven = socket.destroyed;
    } catch {
      // The connection has ended already.
    }
    if (isGiven) return;
    socket.destroy();
    this.#numbers.add(this.number, listener, -1);
  }

  /** Sends the joined health of all workers, if it changed. */
  tellHealth(health: Health): void {
    const isReady = Object.keys(this.troubles).length === 0;
    this.#numbers.setStatus(this.number, !this.serves ? "starting" : isReady ? "ready" : "not ready");
    const told = JSON.stringify(health);
    if (told === this.#told) return;
    this.#told = told;
    this.send({ kind: "health", ...health });
  }

  /** Call it once a second: counts looks without a sign of life, and looks before the worker serves. */
  look(): void {
    const beats = this.#numbers.of(this.number, "beats");
    this.silentLooks = beats === this.#beats ? this.silentLooks + 1 : 0;
    this.#beats = beats;
    if (!this.serves) this.startingLooks++;
  }

  /** Ends the thread, whatever it does. */
  kill(): void {
    void this.#thread.terminate();
  }

  #hear(message: FromWorker, pass: (message: FromWorker, worker: WorkerThread) => void): void {
    if (message.kind === "open") this.#open.add(message.listener);
    else if (message.kind === "close") this.#open.delete(message.listener);
    else if (message.kind === "answer") this.#questions.take(message.id, message.answer);
    else if (message.kind === "health") {
      this.troubles = message.troubles;
      this.notes = message.notes;
    }
    pass(message, this);
  }
}
