// The state machine of a control plane's client: takes what happened and when, and returns what to do. It uses no
// socket and no clock (test/property/xds-session.test.ts tries events in every order).
//
// The protocol is xDS, state of the world: an answer is the whole set. The server sends nothing new until the client
// accepts the answer (ACK: the answer's version and nonce) or refuses it (NACK: the last version accepted on this
// stream, the answer's nonce, and why).

/** The parts of an answer that the machine uses. */
export interface SessionAnswer {
  readonly version: string;
  readonly nonce: string;
  /** Equal for answers with the same resources. */
  readonly digest: string;
}

/** A request on the stream, as far as requests differ. */
export interface StreamRequest {
  readonly version: string;
  readonly nonce: string;
  readonly refusal: string | undefined;
}

/** What the machine has others do. */
interface SessionHands<A extends SessionAnswer> {
  /** Opens the stream with that number. */
  open(stream: number): void;
  close(): void;
  send(request: StreamRequest): void;
  /** `judged` must be called later, and once. */
  judge(answer: A): void;
}

/** The pauses between streams, in milliseconds. */
export interface SessionPauses {
  /** The first pause is at most this long; each further one at most twice the one before. */
  readonly initialMs: number;
  readonly maxMs: number;
  /** True: a random time up to the bound, so that not all clients come back at once. False: the bound. */
  readonly jitters: boolean;
}

/** The state of the stream, in words for people. */
type StreamState = "not connected" | "connected, nothing sent yet" | "connected";

/** When a refused set comes again, the answer waits this long, and twice as long each further time. */
const REFUSE_AGAIN_MS_MIN = 1_000;
const REFUSE_AGAIN_MS_MAX = 30_000;

/**
 * So many sets are judged at once, further ones one a second. Each costs a compilation, a line in the log and a reply.
 */
const JUDGED_AT_ONCE_MAX = 5;
const JUDGE_EVERY_MS = 1_000;

interface Refused {
  readonly digest: string;
  readonly version: string;
  readonly refusal: string;
  readonly times: number;
  /** When it was refused last. */
  readonly atMs: number;
}

/**
 * The client of one control plane. Each event is a method; `nowMs` must not fall from call to call. `stream` is the
 * number with which it was opened: events of older streams are ignored.
 */
export class XdsSession<A extends SessionAnswer> {
  readonly #hands: SessionHands<A>;
  readonly #pauses: SessionPauses;
  readonly #random: () => number;
  /** Number of the current stream, or of the last one. */
  #stream = 0;
  #state: "stopped" | "pausing" | "opening" | "connected" | "answered" = "stopped";
  #openedAtMs = 0;
  /** Pauses since the last useful stream (`ended`). */
  #failures = 0;
  #reopenAtMs = Number.POSITIVE_INFINITY;
  /** The last version accepted on this stream. */
  #acked = "";
  /** The answer that is being judged, and its stream. */
  #judging: { readonly answer: A; readonly stream: number } | undefined;
  /** The newest answer that nobody has judged yet. */
  #next: A | undefined;
  /** Grows by JUDGE_EVERY_MS with each judged answer; behind now, it is now. */
  #judgedUntilMs = Number.NEGATIVE_INFINITY;
  #refused: Refused | undefined;
  /** A refusal that waits until `atMs` before it is sent. */
  #held: { readonly answer: A; readonly refusal: string; readonly atMs: number } | undefined;
  #refusals = 0;
  #lastEnd: string | undefined;

  /** `random` returns numbers from 0 to 1. */
  constructor(hands: SessionHands<A>, pauses: SessionPauses, random: () => number) {
    this.#hands = hands;
    this.#pauses = pauses;
    this.#random = random;
  }

  get state(): StreamState {
    if (this.#state === "answered") return "connected";
    return this.#state === "connected" ? "connected, nothing sent yet" : "not connected";
  }

  /** Why the last stream ended; undefined if none has yet. */
  get lastEnd(): string | undefined {
    return this.#lastEnd;
  }

  /** Sets refused so far. One that comes again unchanged counts when its NACK is sent again. */
  get refusals(): number {
    return this.#refusals;
  }

  /** When `wake` is due; Infinity if it is not. */
  get wakeAtMs(): number {
    return Math.min(
      this.#state === "pausing" ? this.#reopenAtMs : Number.POSITIVE_INFINITY,
      this.#held?.atMs ?? Number.POSITIVE_INFINITY,
      this.#next !== undefined && this.#judging === undefined ? this.#judgeAtMs : Number.POSITIVE_INFINITY,
    );
  }

  start(nowMs: number): void {
    if (this.#state === "stopped") this.#open(nowMs);
  }

  stop(): void {
    const wasOpen = this.#isOpen;
    this.#endStream("stopped");
    if (wasOpen) this.#hands.close();
  }

  /** The connection is established; no answer has come yet. */
  connected(stream: number): void {
    if (this.#isCurrent(stream) && this.#state === "opening") this.#state = "connected";
  }

  answered(stream: number, answer: A, nowMs: number): void {
    if (!this.#isCurrent(stream)) return;
    this.#state = "answered";
    // A held refusal is about an older answer; the server no longer expects a reply to it.
    this.#held = undefined;
    this.#next = answer;
    this.#proceed(nowMs);
  }

  /** The last answer to judge has been judged; `refusal` is undefined if the set is in force. */
  judged(refusal: string | undefined, nowMs: number): void {
    const judged = this.#judging;
    if (judged === undefined) return;
    this.#judging = undefined;
    const { answer, stream } = judged;
    const isCurrent = this.#isCurrent(stream);
    if (refusal === undefined) this.#refused = undefined;
    else this.#remember(answer, refusal, nowMs);
    if (refusal === undefined && isCurrent) this.#acked = answer.version;
    // The server expects a reply to its last answer only.
    if (this.#next !== undefined) this.#proceed(nowMs);
    else if (isCurrent) this.#hands.send({ version: this.#acked, nonce: answer.nonce, refusal });
  }

  ended(stream: number, why: string, nowMs: number): void {
    if (!this.#isCurrent(stream)) return;
    const { initialMs, maxMs, jitters } = this.#pauses;
    // A stream that was connected for maxMs was useful even without an answer.
    if (this.#state === "answered" || (this.#state === "connected" && nowMs - this.#openedAtMs >= maxMs))
      this.#failures = 0;
    const boundMs = Math.min(maxMs, initialMs * 2 ** Math.min(this.#failures, 30));
    this.#failures++;
    this.#reopenAtMs = nowMs + (jitters ? this.#random() * boundMs : boundMs);
    this.#lastEnd = why;
    this.#endStream("pausing");
  }

  /** The time `wakeAtMs` has come. */
  wake(nowMs: number): void {
    const held = this.#held;
    if (this.#state === "pausing" && nowMs >= this.#reopenAtMs) this.#open(nowMs);
    else if (!this.#isOpen || held === undefined || nowMs < held.atMs) this.#proceed(nowMs);
    else {
      this.#held = undefined;
      this.#remember(held.answer, held.refusal, nowMs);
      this.#hands.send({ version: this.#acked, nonce: held.answer.nonce, refusal: held.refusal });
    }
  }

  #isCurrent(stream: number): boolean {
    return this.#isOpen && stream === this.#stream;
  }

  get #isOpen(): boolean {
    return this.#state !== "stopped" && this.#state !== "pausing";
  }

  // Nothing carries over from an older stream: the versions of a restarted server may mean other sets.
  #open(nowMs: number): void {
    this.#state = "opening";
    this.#stream++;
    this.#openedAtMs = nowMs;
    this.#acked = "";
    this.#hands.open(this.#stream);
    this.#hands.send({ version: "", nonce: "", refusal: undefined });
  }

  #endStream(state: "stopped" | "pausing"): void {
    this.#state = state;
    this.#held = undefined;
    this.#next = undefined;
  }

  /** Begins with the newest answer, unless another is being judged or its time has not come. */
  #proceed(nowMs: number): void {
    const answer = this.#next;
    if (answer === undefined || this.#judging !== undefined) return;
    const refused = this.#refused;
    if (refused?.digest === answer.digest && refused.version === answer.version) {
      // Servers may send a refused set again at once. Without a pause, client and server would answer each other in an
      // endless loop.
      const pauseMs = Math.min(REFUSE_AGAIN_MS_MAX, REFUSE_AGAIN_MS_MIN * 2 ** Math.min(refused.times - 1, 30));
      this.#next = undefined;
      this.#held = { answer, refusal: refused.refusal, atMs: Math.max(nowMs, refused.atMs + pauseMs) };
      return;
    }
    if (nowMs < this.#judgeAtMs) return;
    this.#next = undefined;
    this.#judgedUntilMs = Math.max(this.#judgedUntilMs, nowMs) + JUDGE_EVERY_MS;
    this.#judging = { answer, stream: this.#stream };
    this.#hands.judge(answer);
  }

  /** When the next answer may be judged. */
  get #judgeAtMs(): number {
    return this.#judgedUntilMs - (JUDGED_AT_ONCE_MAX - 1) * JUDGE_EVERY_MS;
  }

  #remember({ digest, version }: A, refusal: string, nowMs: number): void {
    const isSame = this.#refused?.digest === digest && this.#refused.version === version;
    this.#refused = { digest, version, refusal, times: isSame ? (this.#refused?.times ?? 0) + 1 : 1, atMs: nowMs };
    this.#refusals++;
  }
}
