// The worker's end of the channel to its supervisor: takes connections and orders, reports health and load, and asks about all
// workers.

import type { Socket } from "node:net";
import type { HealthState } from "../../engine/base/health.ts";
import type { SocketSource } from "../../engine/base/socket-source.ts";
import type { CountChanges } from "../../operate/telemetry/changed-counts.ts";
import type { TopSummary } from "../../operate/telemetry/top/summary.ts";
import type {
  FleetCounts,
  FromWorker,
  ListenerName,
  TopWanted,
  ToWorker,
  WorkerReport,
  WorkerView,
} from "./messages.ts";

/** How often a worker reports. */
const REPORT_MS = 1_000;

/** The IPC channel of a forked process: `process` itself. */
export interface Channel {
  send?(message: FromWorker, handle?: undefined, options?: undefined, done?: () => void): boolean;
  on(event: "message", listener: (message: unknown, socket?: Socket) => void): unknown;
  once(event: "disconnect", listener: () => void): unknown;
  readonly connected: boolean;
  disconnect(): void;
}

/** What the supervisor asks of the service in this process. */
export interface WorkerService {
  readonly health: HealthState;
  report(): WorkerReport;
  /** The metrics of this process, in pieces. */
  page(): AsyncIterable<string>;
  /** The counters of this process that have changed since the last call. */
  counts(): CountChanges;
  /** The top keys of this process. */
  top(wanted: TopWanted): TopSummary;
  /** Sends a connection away; returns the number of streams on it, or undefined if none is suitable. */
  moveAway(surplus: number): number | undefined;
}

/** What the process does on orders of the supervisor. */
interface WorkerOrders {
  reload(): void;
  stop(delays: boolean): void;
  /** The supervisor has gone. */
  abandoned(): void;
}

interface Opening {
  readonly take: (socket: Socket) => void;
  readonly opened: (port: number) => void;
}

export class WorkerLink {
  /** The worker's number, from 1. */
  readonly number: number;
  readonly #channel: Channel;
  readonly #ports: Readonly<Partial<Record<ListenerName, number>>>;
  readonly #openings = new Map<ListenerName, Opening>();
  readonly #pages = new Map<number, (message: Extract<ToWorker, { kind: "page" }>) => void>();
  readonly #views = new Map<number, (views: readonly WorkerView[]) => void>();
  readonly #counts = new Map<number, (counts: FleetCounts) => void>();
  readonly #tops = new Map<number, (tops: readonly TopSummary[]) => void>();
  #service: WorkerService | undefined;
  #others: Extract<ToWorker, { kind: "others" }> | undefined;
  #orders: WorkerOrders | undefined;
  #nextId = 1;
  #reports: NodeJS.Timeout | undefined;

  private constructor(channel: Channel, start: Extract<ToWorker, { kind: "start" }>) {
    this.#channel = channel;
    this.number = start.number;
    this.#ports = start.ports;
  }

  /**
   * Resolves at the supervisor's first message; undefined if this process has no supervisor. If the supervisor ended while this program
   * was loading, the channel is closed and its `disconnect` event is past; then `abandoned` is called at once.
   */
  static connect(channel: Channel, orders: WorkerOrders): Promise<WorkerLink> | undefined {
    if (channel.send === undefined) return undefined;
    return new Promise((resolve) => {
      if (!channel.connected) {
        orders.abandoned();
        return;
      }
      let link: WorkerLink | undefined;
      channel.on("message", (message, socket) => {
        const said = message as ToWorker;
        if (said.kind === "start") {
          link = new WorkerLink(channel, said);
          link.#orders = orders;
          resolve(link);
        } else if (link !== undefined) link.#hear(said, socket);
      });
      channel.once("disconnect", () => orders.abandoned());
    });
  }

  /** The connections of one of the supervisor's listeners; undefined if there is no such listener. */
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

  /** The service is built: from now on its health, load and counters are reported. */
  attach(service: WorkerService): void {
    this.#service = service;
    const tellHealth = () => {
      const { troubles, notes } = service.health.own();
      this.#send({ kind: "health", troubles: Object.fromEntries(troubles), notes: Object.fromEntries(notes) });
    };
    service.health.watchOwn(tellHealth);
    this.#showOthers();
    tellHealth();
    this.#reports = setInterval(() => {
      this.#sendReport();
      this.#sendCounts(service);
    }, REPORT_MS).unref();
  }

  /** The metrics of all workers as one page, in pieces. Throws with the supervisor's reason if they can't be shown. */
  async *fleetPage(): AsyncGenerator<string> {
    const pieces: string[] = [];
    let isDone = false;
    let trouble: string | undefined;
    let wake: () => void = () => undefined;
    const id = this.#nextId++;
    this.#pages.set(id, (message) => {
      pieces.push(message.text);
      isDone = message.isLast;
      trouble = message.trouble;
      wake();
    });
    this.#send({ kind: "page wanted", id });
    try {
      while (!isDone || pieces.length > 0) {
        const piece = pieces.shift();
        if (trouble !== undefined) throw new Error(trouble);
        if (piece !== undefined) yield piece;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      this.#pages.delete(id);
    }
  }

  /** All workers as the supervisor knows them. */
  fleetViews(): Promise<readonly WorkerView[]> {
    const id = this.#nextId++;
    return new Promise((resolve) => {
      this.#views.set(id, resolve);
      this.#send({ kind: "views wanted", id });
    });
  }

  /** The sums of these metrics over all workers, about a second old at most. */
  fleetCounts(metrics: readonly string[]): Promise<FleetCounts> {
    const id = this.#nextId++;
    return new Promise((resolve) => {
      this.#counts.set(id, resolve);
      this.#send({ kind: "fleet counts wanted", id, metrics });
    });
  }

  /** The top keys of each worker that answers in time. */
  fleetTops(wanted: TopWanted): Promise<readonly TopSummary[]> {
    const id = this.#nextId++;
    return new Promise((resolve) => {
      this.#tops.set(id, resolve);
      this.#send({ kind: "tops wanted", id, ...wanted });
    });
  }

  /** Reports why this process can't start; resolves when the message has been sent. */
  failed(message: string, isOurs: boolean): Promise<void> {
    return this.#sendWhole({ kind: "failed", message, isOurs });
  }

  /** Closes the channel, so that the process can end. */
  close(): void {
    clearInterval(this.#reports);
    if (this.#channel.connected) this.#channel.disconnect();
  }

  #send(message: FromWorker): void {
    // Without a supervisor nobody needs the message, and the process is about to end.
    if (this.#channel.connected) this.#channel.send?.(message, undefined, undefined, () => undefined);
  }

  /** Sends and resolves when the message is on its way: a long text must not pile up in this process. */
  #sendWhole(message: FromWorker): Promise<void> {
    return new Promise((resolve) => {
      if (!this.#channel.connected) resolve();
      else this.#channel.send?.(message, undefined, undefined, () => resolve());
    });
  }

  #hear(message: ToWorker, socket: Socket | undefined): void {
    switch (message.kind) {
      case "connection":
        this.#takeConnection(message.listener, socket);
        break;
      case "opened":
        this.#openings.get(message.listener)?.opened(message.port);
        break;
      case "others":
        this.#others = message;
        this.#showOthers();
        break;
      case "reload":
        this.#orders?.reload();
        break;
      case "stop":
        this.#orders?.stop(message.delays);
        break;
      case "move":
        this.#send({ kind: "moved", streams: this.#service?.moveAway(message.surplus) ?? null });
        break;
      case "page wanted":
        void this.#sendPage(message.id);
        break;
      case "page":
        this.#pages.get(message.id)?.(message);
        break;
      case "views":
        this.#views.get(message.id)?.(message.views);
        this.#views.delete(message.id);
        break;
      case "fleet counts":
        this.#counts.get(message.id)?.(message.counts);
        this.#counts.delete(message.id);
        break;
      case "top wanted":
        if (this.#service !== undefined) this.#send({ kind: "top", id: message.id, top: this.#service.top(message) });
        break;
      case "tops":
        this.#tops.get(message.id)?.(message.tops);
        this.#tops.delete(message.id);
        break;
    }
  }

  #showOthers(): void {
    if (this.#others === undefined) return;
    const { troubles, notes } = this.#others;
    this.#service?.health.setOthers(new Map(Object.entries(troubles)), new Map(Object.entries(notes)));
  }

  #takeConnection(listener: ListenerName, socket: Socket | undefined): void {
    const left = () => this.#send({ kind: "left", listener });
    const opening = this.#openings.get(listener);
    // The connection has ended on its way here, or it comes after the listener was closed.
    if (socket === undefined || opening === undefined) {
      socket?.destroy();
      left();
      return;
    }
    socket.once("close", left);
    socket.setNoDelay(true);
    opening.take(socket);
  }

  #sendReport(): void {
    if (this.#service !== undefined) this.#send({ kind: "report", report: this.#service.report() });
  }

  #sendCounts(service: WorkerService): void {
    const { text, isAfresh } = service.counts();
    if (text !== "" || isAfresh) this.#send({ kind: "counts", text, isAfresh });
  }

  async #sendPage(id: number): Promise<void> {
    // The supervisor's metrics by worker come from this report; sent now, it is as fresh as the page.
    this.#sendReport();
    for await (const text of this.#service?.page() ?? []) {
      await this.#sendWhole({ kind: "page", id, text, isLast: false });
    }
    this.#send({ kind: "page", id, text: "", isLast: true });
  }
}
