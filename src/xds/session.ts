// What a client of a control plane says and when, as a state machine: it is told what happens and at what time, and says what
// to do. It touches no socket and no clock (test/property/xds-session.test.ts plays every order of events).
//
// The protocol is state of the world: an answer is the whole set, and the server is silent until the answer is taken in (ACK:
// its version and nonce) or refused (NACK: the version in force on this stream, its nonce, and why).

/** What happened. `stream` is the number that the `open` action gave; what an older stream says is passed over. */
export type SessionEvent<A extends Answer> =
  | { readonly kind: "start" }
  | { readonly kind: "stop" }
  /** The connection stands; nothing has been sent yet. */
  | { readonly kind: "connected"; readonly stream: number }
  | { readonly kind: "answer"; readonly stream: number; readonly answer: A }
  /** What became of the answer last given to be judged; `refusal` is undefined if it is in force. */
  | { readonly kind: "judged"; readonly refusal: string | undefined }
  | { readonly kind: "ended"; readonly stream: number; readonly why: string }
  /** Time has passed; due when `wakeAtMs` says. */
  | { readonly kind: "time" };

/** What an answer is to this machine. */
export interface Answer {
  readonly version: string;
  readonly nonce: string;
  /** Equal for answers that hold the same. */
  readonly digest: string;
}

/** What to do now, in this order. */
export type SessionAction<A extends Answer> =
  | { readonly kind: "open"; readonly stream: number }
  | { readonly kind: "close"; readonly stream: number }
  | { readonly kind: "send"; readonly version: string; readonly nonce: string; readonly refusal: string | undefined }
  | { readonly kind: "judge"; readonly answer: A };

/** How long to wait between streams. */
export interface SessionPauses {
  /** The first pause is at most this long; each further one at most twice the one before. */
  readonly initialMs: number;
  readonly maxMs: number;
  /** True: any time up to the bound, so that a fleet does not come back in one instant. False: the bound. */
  readonly jitters: boolean;
}

/** How the stream stands. */
export type StreamState = "not connected" | "connected, nothing sent yet" | "connected";

/** A set that was refused is answered after this long when it comes again, twice as long each time. */
const REFUSE_AGAIN_MS_MIN = 1_000;
const REFUSE_AGAIN_MS_MAX = 30_000;

interface Refused {
  readonly digest: string;
  readonly version: string;
  readonly refusal: string;
  readonly times: number;
  /** When it was said last. */
  readonly saidAtMs: number;
}

/** One client of one control plane. `random` gives 0 to 1. */
export class XdsSession<A extends Answer> {
  readonly #pauses: SessionPauses;
  readonly #random: () => number;
  /** Number of the stream in use, or of the last one. */
  #stream = 0;
  #phase: "stopped" | "pausing" | "open" = "stopped";
  #isConnected = false;
  #hasAnswered = false;
  #openedAtMs = 0;
  /** Pauses since the last stream that was of use. */
  #failures = 0;
  #reopenAtMs = Number.POSITIVE_INFINITY;
  /** Version taken in on this stream. */
  #acked = "";
  #judging: { readonly answer: A; readonly stream: number } | undefined;
  /** The newest answer that came meanwhile. */
  #next: A | undefined;
  #refused: Refused | undefined;
  #held: { readonly answer: A; readonly refusal: string; readonly atMs: number } | undefined;
  #lastEnd: string | undefined;

  constructor(pauses: SessionPauses, random: () => number) {
    this.#pauses = pauses;
    this.#random = random;
  }

  get state(): StreamState {
    if (this.#phase !== "open" || !(this.#isConnected || this.#hasAnswered)) return "not connected";
    return this.#hasAnswered ? "connected" : "connected, nothing sent yet";
  }

  /** Why the last stream ended; undefined if none has yet. */
  get lastEnd(): string | undefined {
    return this.#lastEnd;
  }

  /** When a `time` event is due; Infinity if none is. */
  get wakeAtMs(): number {
    return Math.min(
      this.#phase === "pausing" ? this.#reopenAtMs : Number.POSITIVE_INFINITY,
      this.#held?.atMs ?? Number.POSITIVE_INFINITY,
    );
  }

  /** Takes in what happened at that time; the times of successive calls never fall. */
  handle(event: SessionEvent<A>, nowMs: number): SessionAction<A>[] {
    switch (event.kind) {
      case "start":
        return this.#phase === "stopped" ? this.#open(nowMs) : [];
      case "stop":
        return this.#stop();
      case "connected":
        if (this.#isCurrent(event.stream)) this.#isConnected = true;
        return [];
      case "answer":
        return this.#isCurrent(event.stream) ? this.#take(event.answer, nowMs) : [];
      case "judged":
        return this.#conclude(event.refusal, nowMs);
      case "ended":
        if (this.#isCurrent(event.stream)) this.#pause(event.why, nowMs);
        return [];
      case "time":
        return this.#wake(nowMs);
    }
  }

  #isCurrent(stream: number): boolean {
    return this.#phase === "open" && stream === this.#stream;
  }

  // A new stream knows nothing of an older one: versions of a server that began anew may mean other sets.
  #open(nowMs: number): SessionAction<A>[] {
    this.#phase = "open";
    this.#stream++;
    this.#openedAtMs = nowMs;
    this.#isConnected = false;
    this.#hasAnswered = false;
    this.#acked = "";
    return [
      { kind: "open", stream: this.#stream },
      { kind: "send", version: "", nonce: "", refusal: undefined },
    ];
  }

  #stop(): SessionAction<A>[] {
    const wasOpen = this.#phase === "open";
    this.#phase = "stopped";
    this.#forgetStream();
    return wasOpen ? [{ kind: "close", stream: this.#stream }] : [];
  }

  #pause(why: string, nowMs: number): void {
    const { initialMs, maxMs, jitters } = this.#pauses;
    // A stream that stood for long was of use even if the server had nothing to send.
    if (this.#hasAnswered || (this.#isConnected && nowMs - this.#openedAtMs >= maxMs)) this.#failures = 0;
    const boundMs = Math.min(maxMs, initialMs * 2 ** Math.min(this.#failures, 30));
    this.#failures++;
    this.#phase = "pausing";
    this.#reopenAtMs = nowMs + (jitters ? this.#random() * boundMs : boundMs);
    this.#lastEnd = why;
    this.#forgetStream();
  }

  #forgetStream(): void {
    this.#held = undefined;
    this.#next = undefined;
    this.#isConnected = false;
    this.#hasAnswered = false;
  }

  #take(answer: A, nowMs: number): SessionAction<A>[] {
    this.#hasAnswered = true;
    // Whatever was held back is about an older answer, which the server no longer listens for.
    this.#held = undefined;
    if (this.#judging !== undefined) {
      this.#next = answer;
      return [];
    }
    const refused = this.#refused;
    if (refused?.digest !== answer.digest || refused.version !== answer.version) return this.#judge(answer);
    // The server sends at once what a NACK was about: two that answer at once would do so for ever.
    const pauseMs = Math.min(REFUSE_AGAIN_MS_MAX, REFUSE_AGAIN_MS_MIN * 2 ** Math.min(refused.times - 1, 30));
    this.#held = { answer, refusal: refused.refusal, atMs: nowMs + pauseMs };
    return [];
  }

  #judge(answer: A): SessionAction<A>[] {
    this.#judging = { answer, stream: this.#stream };
    return [{ kind: "judge", answer }];
  }

  #conclude(refusal: string | undefined, nowMs: number): SessionAction<A>[] {
    const judged = this.#judging;
    if (judged === undefined) return [];
    this.#judging = undefined;
    const { answer, stream } = judged;
    const isCurrent = this.#isCurrent(stream);
    if (refusal === undefined) this.#refused = undefined;
    if (refusal === undefined && isCurrent) this.#acked = answer.version;
    const next = this.#next;
    this.#next = undefined;
    if (refusal !== undefined && (next !== undefined || !isCurrent)) this.#remember(answer, refusal, nowMs);
    // The server listens for what its last answer is about and for nothing before.
    if (next !== undefined) return this.#take(next, nowMs);
    if (!isCurrent) return [];
    if (refusal === undefined) {
      return [{ kind: "send", version: answer.version, nonce: answer.nonce, refusal: undefined }];
    }
    // Also a server that makes a new bad set of every NACK is answered once in a while only.
    const earliestMs = (this.#refused?.saidAtMs ?? Number.NEGATIVE_INFINITY) + REFUSE_AGAIN_MS_MIN;
    if (nowMs >= earliestMs) return this.#refuse(answer, refusal, nowMs);
    this.#held = { answer, refusal, atMs: earliestMs };
    return [];
  }

  #wake(nowMs: number): SessionAction<A>[] {
    if (this.#phase === "pausing" && nowMs >= this.#reopenAtMs) return this.#open(nowMs);
    const held = this.#held;
    if (this.#phase !== "open" || held === undefined || nowMs < held.atMs) return [];
    this.#held = undefined;
    return this.#refuse(held.answer, held.refusal, nowMs);
  }

  #refuse(answer: A, refusal: string, nowMs: number): SessionAction<A>[] {
    this.#remember(answer, refusal, nowMs);
    return [{ kind: "send", version: this.#acked, nonce: answer.nonce, refusal }];
  }

  #remember({ digest, version }: A, refusal: string, nowMs: number): void {
    const isSame = this.#refused?.digest === digest && this.#refused.version === version;
    this.#refused = { digest, version, refusal, times: isSame ? (this.#refused?.times ?? 0) + 1 : 1, saidAtMs: nowMs };
  }
}
