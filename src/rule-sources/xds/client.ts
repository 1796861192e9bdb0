// Keeps a stream to the control plane: connects the state machine (session.ts) with streams, timers and the judge of sets.

import type { Clock } from "../../engine/base/clock.ts";
import { LatestRun } from "../../engine/base/latest-run.ts";
import { runInTurns } from "../../engine/base/long-work.ts";
import { errorMessage } from "../../engine/base/thrown.ts";
import { AdsStream, type ControlPlane } from "./ads-stream.ts";
import { type DiscoveryAnswer, readAnswer } from "./discovery.ts";
import { type SessionAction, type SessionEvent, type SessionPauses, type StreamState, XdsSession } from "./session.ts";

/** The logger. */
interface ClientLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

interface XdsClientOptions {
  readonly plane: ControlPlane;
  readonly pauses: SessionPauses;
  readonly clock: Clock;
  readonly log: ClientLog;
  /** Puts a set in force; resolves to undefined, or to why it is refused. Must not reject. Calls never overlap. */
  readonly judge: (answer: DiscoveryAnswer) => Promise<string | undefined>;
  /** Called after every event of the stream. */
  readonly changed: () => void;
}

/** The state of the stream, for `/config` and metrics. */
export interface ClientStatus {
  readonly state: StreamState;
  /** Streams opened so far. */
  readonly streams: number;
  /** Answers received so far. */
  readonly answers: number;
  /** Sets refused so far. */
  readonly refusals: number;
  /** Why the last stream ended; undefined if none has. */
  readonly lastEnd: string | undefined;
}

interface Message {
  readonly stream: number;
  readonly bytes: Buffer;
}

/** The client of one control plane. */
export class XdsClient {
  readonly #options: XdsClientOptions;
  readonly #session: XdsSession<DiscoveryAnswer>;
  #stream: AdsStream | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Reads messages while calls are answered. The server expects an answer to its last message only, so older ones are dropped. */
  readonly #reads = new LatestRun<Message, void>((message) => this.#read(message));
  /** Number of the last stream. */
  #streams = 0;
  #answers = 0;
  /** The last reason for an end that was logged. */
  #toldEnd: string | undefined;

  constructor(options: XdsClientOptions) {
    this.#options = options;
    this.#session = new XdsSession(options.pauses, Math.random);
  }

  start(): void {
    this.#handle({ kind: "start" });
  }

  close(): void {
    this.#handle({ kind: "stop" });
    clearTimeout(this.#timer);
  }

  status(): ClientStatus {
    const { state, refusals, lastEnd } = this.#session;
    return { state, streams: this.#streams, answers: this.#answers, refusals, lastEnd };
  }

  #handle(event: SessionEvent<DiscoveryAnswer>): void {
    const before = this.#session.state;
    for (const action of this.#session.handle(event, this.#nowMs())) this.#do(action);
    this.#setTimer();
    this.#tell(before, this.#session.state);
    this.#options.changed();
  }

  #do(action: SessionAction<DiscoveryAnswer>): void {
    if (action.kind === "open") this.#open(action.stream);
    else if (action.kind === "close") this.#stream?.close();
    else if (action.kind === "send") {
      this.#stream?.send(action);
    } else void this.#judge(action.answer);
  }

  #open(stream: number): void {
    this.#streams = stream;
    this.#stream = new AdsStream(this.#options.plane, {
      connected: () => this.#handle({ kind: "connected", stream }),
      message: (bytes) => void this.#reads.run({ stream, bytes }),
      ended: (why) => this.#handle({ kind: "ended", stream, why }),
    });
  }

  async #read({ stream, bytes }: Message): Promise<void> {
    let answer: DiscoveryAnswer;
    try {
      answer = await runInTurns(readAnswer(bytes, this.#options.plane.bounds));
    } catch (cause) {
      // Without a nonce the answer can't be refused, so the stream is replaced.
      if (stream === this.#streams) this.#stream?.close();
      const why = `the server sent what is no answer: ${errorMessage(cause)}`;
      this.#handle({ kind: "ended", stream, why });
      return;
    }
    this.#answers++;
    this.#handle({ kind: "answer", stream, answer });
  }

  async #judge(answer: DiscoveryAnswer): Promise<void> {
    const refusal = await this.#options.judge(answer);
    this.#handle({ kind: "judged", refusal });
  }

  #tell(before: StreamState, after: StreamState): void {
    const { plane, log } = this.#options;
    const fields = { server: plane.url, node: plane.nodeId };
    if (after !== "not connected") {
      this.#toldEnd = undefined;
      if (before !== after) log.info(fields, `the control plane: ${after}`);
      return;
    }
    // Each reason is logged once, however many streams end with it.
    const { lastEnd } = this.#session;
    if (lastEnd === undefined || (lastEnd === this.#toldEnd && before === after)) return;
    this.#toldEnd = lastEnd;
    log.warn({ ...fields, why: lastEnd }, "the control plane is away; the rules in force stay");
  }

  #setTimer(): void {
    clearTimeout(this.#timer);
    const { wakeAtMs } = this.#session;
    if (wakeAtMs === Number.POSITIVE_INFINITY) return;
    // A millisecond more, because timers may fire slightly early.
    const waitMs = Math.max(0, wakeAtMs - this.#nowMs()) + 1;
    this.#timer = setTimeout(() => this.#handle({ kind: "time" }), waitMs).unref();
  }

  #nowMs(): number {
    return this.#options.clock.nowUs() / 1_000;
  }
}
