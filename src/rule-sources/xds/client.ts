// Keeps a stream to the control plane: connects the state machine (session.ts) with streams, timers and the judge of sets.

import type { Clock } from "../../engine/base/clock.ts";
import { LatestRun } from "../../engine/base/latest-run.ts";
import { runInTurns } from "../../engine/base/long-work.ts";
import { errorMessage } from "../../engine/base/thrown.ts";
import type { ReloadLog } from "../files/rule-source.ts";
import { AdsStream, type ControlPlane } from "./ads-stream.ts";
import { type DiscoveryAnswer, readAnswer } from "./discovery.ts";
import { type SessionPauses, type StreamRequest, type StreamState, XdsSession } from "./session.ts";

interface XdsClientOptions {
  readonly plane: ControlPlane;
  readonly pauses: SessionPauses;
  readonly clock: Clock;
  readonly log: Pick<ReloadLog, "info" | "warn">;
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
    const hands = {
      open: (stream: number) => this.#open(stream),
      close: () => this.#stream?.close(),
      send: (request: StreamRequest) => this.#stream?.send(request),
      judge: (answer: DiscoveryAnswer) => void this.#judge(answer),
    };
    this.#session = new XdsSession(hands, options.pauses, Math.random);
  }

  start(): void {
    this.#tell((nowMs) => this.#session.start(nowMs));
  }

  close(): void {
    this.#tell(() => this.#session.stop());
    clearTimeout(this.#timer);
  }

  status(): ClientStatus {
    const { state, refusals, lastEnd } = this.#session;
    return { state, streams: this.#streams, answers: this.#answers, refusals, lastEnd };
  }

  /** Tells the session of an event. */
  #tell(event: (nowMs: number) => void): void {
    const before = this.#session.state;
    event(this.#nowMs());
    this.#setTimer();
    this.#logState(before, this.#session.state);
    this.#options.changed();
  }

  #open(stream: number): void {
    this.#streams = stream;
    this.#stream = new AdsStream(this.#options.plane, {
      connected: () => this.#tell(() => this.#session.connected(stream)),
      message: (bytes) => void this.#reads.run({ stream, bytes }),
      ended: (why) => this.#tell((nowMs) => this.#session.ended(stream, why, nowMs)),
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
      this.#tell((nowMs) => this.#session.ended(stream, why, nowMs));
      return;
    }
    this.#answers++;
    this.#tell((nowMs) => this.#session.answered(stream, answer, nowMs));
  }

  async #judge(answer: DiscoveryAnswer): Promise<void> {
    const refusal = await this.#options.judge(answer);
    this.#tell((nowMs) => this.#session.judged(refusal, nowMs));
  }

  #logState(before: StreamState, after: StreamState): void {
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
    this.#timer = setTimeout(() => this.#tell((nowMs) => this.#session.wake(nowMs)), waitMs).unref();
  }

  #nowMs(): number {
    return this.#options.clock.nowUs() / 1_000;
  }
}
