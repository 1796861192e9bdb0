// The first process when WORKERS is above 1: listens, starts the workers, hands them connections, replaces workers that end, and has
// them reload and stop. It decides no call and has no store.

import type { Socket } from "node:net";
import { cannotListen, listenTrouble } from "../../engine/base/cannot-listen.ts";
import type { Clock } from "../../engine/base/clock.ts";
import { errorMessage } from "../../engine/base/thrown.ts";
import { grpcCannotListen } from "../../grpc/transport/grpc-cannot-listen.ts";
import type { Logger } from "../../operate/telemetry/logger.ts";
import { SupervisorPage } from "../../operate/telemetry/supervisor-page.ts";
import type { Settings } from "../settings.ts";
import { nameOf, targetOf } from "./addresses.ts";
import { chooseWorker } from "./choose-worker.ts";
import { othersOf, workersForCalls } from "./fleet-health.ts";
import { FleetPage } from "./fleet-page.ts";
import { FleetTop } from "./fleet-top.ts";
import { type FromWorker, LISTENER_NAMES, type ListenerName } from "./messages.ts";
import { Rebalancer } from "./rebalance.ts";
import { RestartPace } from "./restart-pace.ts";
import { SharedListener } from "./shared-listener.ts";
import { type End, startError, WorkerProcess } from "./worker-process.ts";

const LOOK_MS = 1_000;
/**
 * A worker that serves and has not reported for this many looks is stuck, with all its connections, and is killed. Looks are counted
 * and not time, because on a machine that stood still no worker could report.
 */
const SILENT_LOOKS_MAX = 10;
/**
 * A worker that does not serve after this many looks is stuck in its start, and is killed too. A start takes a second or two, and
 * a store that is away does not prolong it. A container has as long: the startup probe in deploy/ allows 60 s.
 */
const STARTING_LOOKS_MAX = 60;
/** A connection that was sent away is expected back within this time. */
const COMING_BACK_US = 3_000_000;
/** Extra time for a worker to end, beyond what the settings allow. */
const END_SLACK_MS = 5_000;

interface SupervisorOptions {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Number of workers to run. */
  readonly count: number;
  /** The program, which is run as `FILE worker`. */
  readonly file: string;
  /** The environment of the workers. */
  readonly env: Readonly<NodeJS.ProcessEnv>;
}

/** Settles the promise of `start`. */
interface Start {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #listeners: ReadonlyMap<ListenerName, SharedListener>;
  readonly #ports: Partial<Record<ListenerName, number>> = {};
  readonly #workers = new Map<number, WorkerProcess>();
  readonly #paces: readonly RestartPace[];
  readonly #restarts = new Set<NodeJS.Timeout>();
  readonly #rebalancer = new Rebalancer<WorkerProcess>();
  readonly #page: FleetPage;
  readonly #top = new FleetTop();
  #look: NodeJS.Timeout | undefined;
  /** Defined until all workers have served once. */
  #start: Start | undefined;
  #isStopping = false;
  #willTell = false;
  #whenEmpty: (() => void) | undefined;
  /** The worker that was asked to send a connection away, and until when the connection is expected back. */
  #moving: { readonly from: WorkerProcess; readonly untilUs: number } | undefined;
  #given = 0;
  #restarted = 0;
  #moved = 0;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#paces = Array.from({ length: options.count }, () => new RestartPace());
    this.#listeners = new Map(
      LISTENER_NAMES.flatMap((name) => {
        const target = targetOf(name, options.settings);
        return target === undefined
          ? []
          : [[name, new SharedListener(target, (socket) => this.#give(name, socket))] as const];
      }),
    );
    const own = new SupervisorPage();
    this.#page = new FleetPage({
      workers: () => this.#all(),
      rules: () => [...new Set(this.#all().flatMap(({ report }) => report?.rules.hash ?? []))].sort().join(),
      own: () =>
        own.text({
          restarts: this.#restarted,
          moves: this.#moved,
          workers: this.#all().map(({ number, connections, openStreams, report }) => {
            return { number, connections, openStreams, calls: report?.calls ?? 0 };
          }),
        }),
    });
  }

  /**
   * Listens and starts the workers; resolves when all of them serve. Rejects with ConfigError if an address is taken, or if a worker
   * reports that settings can't be used.
   */
  async start(): Promise<void> {
    const { count, settings, logger } = this.#options;
    await this.#openPages();
    this.#look = setInterval(() => {
      this.#endStuck();
      this.#rebalance();
    }, LOOK_MS);
    try {
      await new Promise<void>((resolve, reject) => {
        this.#start = { resolve, reject };
        for (let number = 1; number <= count; number++) this.#fork(number);
      });
    } catch (error) {
      this.#isStopping = true;
      clearInterval(this.#look);
      this.kill();
      this.#closeListeners();
      throw error;
    } finally {
      this.#start = undefined;
    }
    this.#tellOthers();
    const { grpc, http, debug, metrics } = this.#ports;
    const { grpcUnixSocket, grpcHost, httpHost, backendType: store } = settings;
    logger.info(
      {
        grpc: grpcUnixSocket ?? `${grpcHost}:${grpc}`,
        http: `${httpHost}:${http}`,
        store,
        debug,
        metrics,
        workers: count,
      },
      "listening",
    );
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
    const giveUp = setTimeout(() => this.kill(), boundMs);
    if (this.#workers.size > 0) await new Promise<void>((resolve) => (this.#whenEmpty = resolve));
    clearTimeout(giveUp);
    this.#closeListeners();
  }

  /** Kills every worker at once. */
  kill(): void {
    for (const worker of this.#workers.values()) worker.kill();
  }

  #all(): WorkerProcess[] {
    return [...this.#workers.values()].sort((one, other) => one.number - other.number);
  }

  async #openPages(): Promise<void> {
    const { settings, logger } = this.#options;
    for (const name of ["http", "debug", "metrics"] as const) {
      const listener = this.#listeners.get(name);
      try {
        if (listener !== undefined) this.#ports[name] = await listener.open();
      } catch (error) {
        if (!(error instanceof Error)) throw error;
        const { variable, where } = nameOf(name, settings);
        if (name === "http") throw cannotListen("HTTP", where, variable, error);
        const reason = listenTrouble(error);
        logger.error({ variable, where, reason }, "a port that calls don't need can't be opened; going on without it");
      }
    }
  }

  #fork(number: number): void {
    const { file, env, clock } = this.#options;
    // The gRPC port opens when the first worker serves, and the worker learns its number then.
    const ports = { ...this.#ports, grpc: 0 };
    const worker = new WorkerProcess({
      number,
      file,
      env,
      ports,
      startedUs: clock.nowUs(),
      onMessage: (message, from) => this.#hear(message, from),
      onEnd: (end, ended) => this.#ended(ended, end),
    });
    this.#workers.set(number, worker);
  }

  #hear(message: FromWorker, worker: WorkerProcess): void {
    switch (message.kind) {
      case "open":
        void this.#opened(message.listener, worker);
        break;
      case "close":
        this.#closeUnlessTaken(message.listener);
        this.#tellOthers();
        break;
      case "health":
        this.#tellOthers();
        break;
      case "moved":
        this.#noteMove(worker, message.streams);
        break;
      case "page":
        this.#page.take(message.id, message.text, message.isLast);
        break;
      case "page wanted":
        void this.#sendPage(worker, message.id);
        break;
      case "views wanted":
        worker.send({ kind: "views", id: message.id, views: this.#all().map((each) => each.view()) });
        break;
      case "fleet counts wanted":
        worker.send({ kind: "fleet counts", id: message.id, counts: this.#page.counts(message.metrics) });
        break;
      case "top":
        this.#top.take(message.id, message.top);
        break;
      case "tops wanted":
        void this.#top.ask(this.#all(), message).then((tops) => worker.send({ kind: "tops", id: message.id, tops }));
        break;
    }
  }

  async #opened(name: ListenerName, worker: WorkerProcess): Promise<void> {
    try {
      if (name === "grpc") this.#ports.grpc = await this.#openGrpc();
    } catch (error) {
      this.#start?.reject(error);
      return;
    }
    worker.send({ kind: "opened", listener: name, port: this.#ports[name] ?? 0 });
    if (name !== "grpc") return;
    this.#options.logger.debug({ number: worker.number, pid: worker.pid }, "a worker serves");
    this.#tellOthers();
    const serving = this.#all().filter(({ serves }) => serves);
    if (serving.length === this.#options.count) this.#start?.resolve();
  }

  async #openGrpc(): Promise<number> {
    const { settings } = this.#options;
    const { grpcUnixSocket: unixSocket } = settings;
    const listener = this.#listeners.get("grpc") as SharedListener;
    try {
      return await listener.open();
    } catch (error) {
      throw error instanceof Error ? grpcCannotListen(nameOf("grpc", settings).where, { unixSocket }, error) : error;
    }
  }

  #give(name: ListenerName, socket: Socket): void {
    const takers = this.#all().filter((worker) => worker.takesAt(name));
    // A worker that still starts knows less than one that serves, so its pages are a last resort.
    const serving = workersForCalls(takers);
    const counted = (serving.length > 0 ? serving : takers).map((worker) => {
      return { worker, connections: worker.heldAt(name), openStreams: worker.openStreams, lastGiven: worker.lastGiven };
    });
    const avoided = name === "grpc" ? this.#avoided() : undefined;
    const chosen = chooseWorker(
      counted,
      counted.find(({ worker }) => worker === avoided),
    )?.worker;
    if (chosen === undefined) {
      socket.destroy();
      return;
    }
    chosen.lastGiven = ++this.#given;
    chosen.give(name, socket);
  }

  // Only the first new connection after a move counts as the one that was sent away.
  #avoided(): WorkerProcess | undefined {
    const moving = this.#moving;
    this.#moving = undefined;
    return moving !== undefined && this.#options.clock.nowUs() < moving.untilUs ? moving.from : undefined;
  }

  #endStuck(): void {
    for (const worker of this.#all()) {
      const { number, pid, serves } = worker;
      if (serves ? ++worker.silentLooks !== SILENT_LOOKS_MAX : ++worker.startingLooks !== STARTING_LOOKS_MAX) continue;
      const trouble = serves
        ? "a worker has not been heard of for too long; it is ended"
        : `a worker does not serve ${(STARTING_LOOKS_MAX * LOOK_MS) / 1_000} s after it was started; it is ended`;
      this.#options.logger.error({ number, pid }, trouble);
      worker.failure ??= { message: trouble, isOurs: true };
      worker.kill();
    }
  }

  #rebalance(): void {
    const nowUs = this.#options.clock.nowUs();
    const move = this.#rebalancer.look(workersForCalls(this.#all()), nowUs);
    if (move === undefined) return;
    this.#moving = { from: move.from, untilUs: nowUs + COMING_BACK_US };
    move.from.send({ kind: "move", surplus: move.surplus });
  }

  #noteMove(worker: WorkerProcess, streams: number | null): void {
    if (streams === null) {
      this.#moving = undefined;
      return;
    }
    this.#moved++;
    this.#rebalancer.noteMove(this.#options.clock.nowUs());
    this.#options.logger.debug(
      { number: worker.number, openStreams: Math.round(worker.openStreams), streams: Math.round(streams) },
      "a worker with more than its share has asked a connection to go",
    );
  }

  async #sendPage(worker: WorkerProcess, id: number): Promise<void> {
    try {
      for await (const text of this.#page.text()) await worker.sendWhole({ kind: "page", id, text, isLast: false });
      worker.send({ kind: "page", id, text: "", isLast: true });
    } catch (error) {
      const trouble = errorMessage(error);
      this.#options.logger.error({ err: error }, "the metrics of all workers can't be shown");
      worker.send({ kind: "page", id, text: "", isLast: true, trouble });
    }
  }

  // Waits for the end of the turn, so that several changes in one turn are told once.
  #tellOthers(): void {
    if (this.#willTell) return;
    this.#willTell = true;
    setImmediate(() => {
      this.#willTell = false;
      const all = this.#all();
      // Workers that end in order are not missing.
      const count = this.#isStopping ? 0 : this.#options.count;
      const expected = { count, isStarting: this.#start !== undefined };
      for (const worker of all) worker.tellOthers(othersOf(worker, all, expected));
    });
  }

  // A client that connects while the last workers drain is refused, so that it goes elsewhere; it would be dropped soon otherwise.
  #closeUnlessTaken(name: ListenerName): void {
    if (this.#isStopping && !this.#all().some((worker) => worker.takesAt(name))) {
      void this.#listeners.get(name)?.close();
    }
  }

  #ended(worker: WorkerProcess, { code, signal }: End): void {
    const { logger, clock } = this.#options;
    const { number, pid, failure } = worker;
    if (this.#workers.get(number) === worker) this.#workers.delete(number);
    void this.#page.bury(worker);
    this.#top.bury(worker);
    if (this.#isStopping) {
      if (code !== 0) logger.warn({ number, pid, code, signal }, "a worker did not end properly");
      if (this.#workers.size === 0) this.#whenEmpty?.();
      return;
    }
    if (this.#start !== undefined) {
      this.#start.reject(startError(worker, { code, signal }));
      return;
    }
    this.#tellOthers();
    const pauseMs = (this.#paces[number - 1] as RestartPace).pauseAfter(clock.nowUs() - worker.startedUs);
    this.#restarted++;
    logger.error(
      { number, pid, code, signal, reason: failure?.message, pauseMs },
      "a worker has ended; it is replaced",
    );
    const restart = setTimeout(() => {
      this.#restarts.delete(restart);
      this.#fork(number);
    }, pauseMs);
    this.#restarts.add(restart);
  }

  #closeListeners(): void {
    for (const listener of this.#listeners.values()) listener.close();
  }
}
