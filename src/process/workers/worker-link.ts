// A worker's link to the main thread and, through it, to the other workers: connections, orders, signs of life, health, questions.

import type { Socket } from "node:net";
import type { MessagePort } from "node:worker_threads";
import type { HealthState } from "../../engine/base/health.ts";
import type { SocketSource } from "../../engine/base/socket-source.ts";
import type {
  Answers,
  FromWorker,
  Health,
  ListenerName,
  Question,
  ToWorker,
  WorkerData,
  WorkerReport,
} from "./messages.ts";
import { Questions } from "./questions.ts";
import { SharedNumbers, type WorkerStatus } from "./shared-numbers.ts";

/** How often a worker gives a sign of life. */
const BEAT_MS = 1_000;
/** Longest wait for the main thread, which waits for all workers. */
const ANSWER_MS_MAX = 5_000;

/** What others ask of the service in this thread. */
export interface WorkerService {
  readonly health: HealthState;
  answer(question: Question): Answers[Question["about"]] | Promise<Answers[Question["about"]]>;
  /** Publishes this worker's numbers to the other threads; called once a second. */
  note(): void;
}

/** What the thread does on orders of the main thread. */
interface WorkerOrders {
  reload(): void;
  stop(delays: boolean): void;
}

/** A worker as every worker knows it; without a report if it did not answer. */
export interface WorkerView extends Partial<WorkerReport> {
  readonly worker: number;
  readonly status: WorkerStatus;
  readonly connections: number;
  readonly openStreams: number;
}

interface Opening {
  readonly take: (socket: Socket) => void;
  readonly opened: (port: number) => void;
}

export class WorkerLink {
  /** The worker's number, from 1. */
  readonly number: number;
  readonly numbers: SharedNumbers;
  readonly #port: MessagePort;
  readonly #ports: WorkerData["ports"];
  readonly #openings = new Map<ListenerName, Opening>();
  readonly #questions = new Questions((message) => this.#send(message), ANSWER_MS_MAX);
  #service: WorkerService | undefined;
  #health: Health | undefined;

  /** Starts to read messages from `port` and to give signs of life. */
  constructor(port: MessagePort, { number, ports, numbers }: WorkerData, orders: WorkerOrders) {
    this.#port = port;
    this.number = number;
    this.#ports = ports;
    this.numbers = new SharedNumbers(numbers);
    port.on("message", (message: ToWorker) => this.#hear(message, orders));
    setInterval(() => this.#beat(), BEAT_MS).unref();
  }

  /** The connections of one of the main thread's listeners; undefined if there is no such listener. */
  socketSource(name: ListenerName): SocketSource | undefined {
    const port = this.#ports[name];
    if (port === undefined) return undefined;
    return {
      open: (take) =>
        new Promise((opened) => {
          this.#openings.set(name, { take, opened });
          this.#send({ kind: "open", listener: name });
        }),
      close: () => {
        if (this.#openings.delete(name)) this.#send({ kind: "close", listener: name });
      },
    };
  }

  /** The service is built: from now on it reports its health and answers questions. */
  attach(service: WorkerService): void {
    this.#service = service;
    const tellHealth = () => {
      const { troubles, notes } = service.health.own();
      this.#send({ kind: "health", troubles: Object.fromEntries(troubles), notes: Object.fromEntries(notes) });
    };
    service.health.watchOwn(tellHealth);
    tellHealth();
    if (this.#health !== undefined) service.health.showAll(this.#health);
  }

  /** The answers of all workers that give one in time, this one's included, by their numbers. */
  async ask<Q extends Question>(question: Q): Promise<ReadonlyMap<number, Answers[Q["about"]]>> {
    const answers = (await this.#questions.ask(question)) ?? new Map();
    return answers as ReadonlyMap<number, Answers[Q["about"]]>;
  }

  /** All workers, also those that are missing. */
  async views(): Promise<readonly WorkerView[]> {
    const reports = await this.ask({ about: "report" });
    return Array.from({ length: this.numbers.count }, (_, i) => ({
      worker: i + 1,
      status: this.numbers.statusOf(i + 1),
      connections: this.numbers.of(i + 1, "grpc"),
      openStreams: this.numbers.openStreamsOf(i + 1),
      ...reports.get(i + 1),
    }));
  }

  #send(message: FromWorker): void {
    this.#port.postMessage(message);
  }

  #hear(message: ToWorker, orders: WorkerOrders): void {
    switch (message.kind) {
      case "connection":
        this.#takeConnection(message.listener, message.socket);
        break;
      case "opened":
        this.#openings.get(message.listener)?.opened(message.port);
        break;
      case "health":
        this.#health = message;
        this.#service?.health.showAll(message);
        break;
      case "reload":
        orders.reload();
        break;
      case "stop":
        orders.stop(message.delays);
        break;
      case "ask":
        void this.#answer(message.id, message.question);
        break;
      case "answer":
        this.#questions.take(message.id, message.answer);
        break;
    }
  }

  #takeConnection(listener: ListenerName, socket: Socket): void {
    const opening = this.#openings.get(listener);
    const left = () => this.numbers.add(this.number, listener, -1);
    // The connection comes after the listener was closed.
    if (opening === undefined) {
      socket.destroy();
      left();
      return;
    }
    socket.once("close", left);
    socket.setNoDelay(true);
    opening.take(socket);
  }

  #beat(): void {
    this.numbers.add(this.number, "beats", 1);
    this.#service?.note();
  }

  async #answer(id: number, question: Question): Promise<void> {
    const answer = await this.#service?.answer(question);
    this.#send({ kind: "answer", id, answer });
  }
}
