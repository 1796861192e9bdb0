// A call of a method that is not plain bytes, on its stream: health and reflection, whose handlers have the form that grpc-js gives them.
// Invariants: a request is handled in a turn (stream-turns.ts), and never while an answer waits for the peer; the peer gets window back for
// what is handled, or is not a whole message yet; all that is kept counts as the connection's `partialBytes`; the handler hears "close" once.

import { EventEmitter } from "node:events";
import { GrpcStatus } from "../../unary.ts";
import type { StreamMethod } from "../other-services.ts";
import { MESSAGE_HEAD_BYTES } from "./protocol.ts";
import type { RequestHead } from "./request-head.ts";
import { messageOf } from "./sender.ts";
import { Stream } from "./stream.ts";
import type { StreamTurns } from "./stream-turns.ts";
import type { CallLane, CallOwner } from "./unary-stream.ts";

/** Answers that may wait for the peer, whatever their length; only a handler that answers unasked gets there. */
const ANSWERS_WAITING_MAX = 64;
const NOTHING = Buffer.alloc(0);

/** What handlers use of a call of grpc-js; of its other parts none is there. */
type Handler = (call: HandlerCall, respond: (error: Partial<StatusError> | null, answer?: unknown) => void) => void;

interface StatusError {
  readonly code: GrpcStatus;
  readonly details: string;
}

/** The lane, as such a call sees it. */
interface StreamLane extends CallLane {
  readonly turns: StreamTurns;
}

export class StreamedCall extends Stream {
  readonly #lane: StreamLane;
  readonly #connection: CallOwner;
  readonly #method: StreamMethod;
  readonly #deadlineUs: number;
  #call: HandlerCall | undefined;
  #state: "new" | "open" | "ended" | "closed" = "new";
  // Received and not handled, and how much of it was not given back to the window.
  #received: Buffer = NOTHING;
  #owed = 0;
  // Answers that wait for the peer, oldest first, how much of the first was sent, and the end behind them.
  readonly #answers: Buffer[] = [];
  #sent = 0;
  #end: StatusError | undefined;
  #hasHead = false;
  #counted = 0;

  constructor(lane: StreamLane, connection: CallOwner, head: RequestHead, method: StreamMethod, id: number) {
    super();
    this.id = id;
    this.contentLength = head.contentLength;
    this.#lane = lane;
    this.#connection = connection;
    this.#method = method;
    this.#deadlineUs = head.timeoutUs === Number.POSITIVE_INFINITY ? head.timeoutUs : lane.turnNowUs() + head.timeoutUs;
    lane.deadlines.note(this.#deadlineUs);
  }

  get waitsForPeer(): boolean {
    return true;
  }

  /** Answers that have not been sent. */
  get answersWaiting(): number {
    return this.#answers.length;
  }

  takeData(bytes: Buffer, start: number, end: number, _isEnd: boolean): void {
    if (this.#state === "closed") return;
    if (end > start) {
      const more = bytes.subarray(start, end);
      this.#received = this.#received.length === 0 ? Buffer.from(more) : Buffer.concat([this.#received, more]);
      this.#owed += end - start;
    }
    const { maxMessageBytes } = this.#lane.options;
    if (this.#received.length > 0 && this.#received[0] !== 0) {
      this.fail(GrpcStatus.internal, "a message that does not begin with 0");
    } else if (this.#messageBytes() > maxMessageBytes) {
      this.fail(GrpcStatus.resourceExhausted, `Received message larger than max (${maxMessageBytes})`);
    } else if (this.#count()) this.#proceed();
  }

  // The length that the next message says, or -1.
  #messageBytes(): number {
    return this.#received.length < MESSAGE_HEAD_BYTES ? -1 : this.#received.readUInt32BE(1);
  }

  #hasMessage(): boolean {
    const length = this.#messageBytes();
    return length >= 0 && this.#received.length >= length + MESSAGE_HEAD_BYTES;
  }

  // Asks for a turn if there is something to handle.
  #proceed(): void {
    if (this.#hasWork()) this.#lane.turns.enter(this.#connection, this);
    else if (!this.#hasMessage() && this.#owed > 0) {
      this.#connection.credit(this, this.#owed);
      this.#owed = 0;
    }
  }

  #hasWork(): boolean {
    if (this.#answers.length > 0) return false;
    if (this.#state === "new") return this.isRemoteDone || this.#method.definition.requestStream;
    return this.#state === "open" && (this.#hasMessage() || this.isRemoteDone);
  }

  takeTurn(): boolean {
    if (!this.#hasWork()) return false;
    try {
      if (this.#state === "new") this.#begin();
      else this.#handleNext();
    } catch (error) {
      this.#lane.context.observer.handlerFailed(this.#method.definition.path, error);
      this.fail(GrpcStatus.internal, "internal error");
    }
    this.#count();
    this.#connection.flushSoon();
    if (this.#hasWork()) return true;
    this.#proceed();
    return false;
  }

  #begin(): void {
    const call = new HandlerCall(this);
    if (!this.#method.definition.requestStream) {
      if (!this.#hasMessage()) {
        if (this.#received.length > 0) this.fail(GrpcStatus.internal, "the message ends early");
        else this.fail(GrpcStatus.unimplemented, "the call carries no message; expected one");
        return;
      }
      if (!this.#read((request) => (call.request = request))) return;
      if (this.#received.length > 0) {
        this.fail(GrpcStatus.unimplemented, "bytes after the message");
        return;
      }
    }
    this.#call = call;
    this.#state = this.#method.definition.requestStream ? "open" : "ended";
    (this.#method.handler as unknown as Handler)(call, (error, answer) => {
      if (error === null) this.answer(answer);
      this.finish(error);
    });
  }

  #handleNext(): void {
    if (this.#hasMessage()) this.#read((request) => this.#call?.emit("data", request));
    else if (this.#received.length > 0) this.fail(GrpcStatus.internal, "the message ends early");
    else {
      this.#state = "ended";
      this.#call?.emit("end");
    }
  }

  // Takes the next message out. False if the call has failed because of it.
  #read(handle: (request: unknown) => void): boolean {
    const end = this.#messageBytes() + MESSAGE_HEAD_BYTES;
    const message = this.#received.subarray(MESSAGE_HEAD_BYTES, end);
    this.#received = this.#received.subarray(end);
    let request: unknown;
    try {
      request = this.#method.definition.requestDeserialize(message);
    } catch {
      this.fail(GrpcStatus.internal, "Error deserializing request");
      return false;
    }
    handle(request);
    return true;
  }

  /** Sends an answer, or keeps it until the peer reads. */
  answer(answer: unknown): void {
    if (this.#state === "closed" || this.#end !== undefined) return;
    if (this.#answers.length >= ANSWERS_WAITING_MAX) {
      this.fail(GrpcStatus.resourceExhausted, "the caller does not read");
      return;
    }
    this.#answers.push(messageOf(this.#method.definition.responseSerialize(answer)));
    this.resume();
  }

  /** Ends the call after the answers that wait; with OK if `error` is null. */
  finish(error: Partial<StatusError> | null): void {
    if (this.#state === "closed" || this.#end !== undefined) return;
    this.#end = error === null ? OK : { code: error.code ?? GrpcStatus.internal, details: error.details ?? "" };
    this.resume();
  }

  /** Ends the call at once. */
  fail(code: GrpcStatus, details: string): void {
    if (this.#state === "closed") return;
    this.#answers.length = 0;
    this.#sent = 0;
    this.#end = { code, details };
    this.resume();
  }

  resume(): void {
    if (this.#state === "closed") return;
    const { sender } = this.#connection;
    if (this.#answers.length > 0 && !this.#hasHead) {
      this.#hasHead = true;
      sender.headers(this.id, sender.blocks.head(), false);
    }
    while (this.#answers.length > 0) {
      const answer = this.#answers[0] as Buffer;
      const sent = this.#connection.isFull ? this.#sent : sender.data(this, answer, this.#sent, false);
      if (sent > this.#sent) this.starvedUs = 0;
      this.#sent = sent;
      if (sent < answer.length) {
        sender.hold(this);
        this.#count();
        this.#connection.flushSoon();
        return;
      }
      this.#answers.shift();
      this.#sent = 0;
    }
    if (this.#end !== undefined) this.#sendEnd(this.#end);
    else if (this.#count()) this.#proceed();
    this.#connection.flushSoon();
  }

  #sendEnd({ code, details }: StatusError): void {
    const { sender } = this.#connection;
    const { blocks } = sender;
    if (code === GrpcStatus.ok && this.#hasHead) sender.headers(this.id, blocks.okTrailers(), true);
    else if (this.#hasHead) sender.headers(this.id, blocks.failureTrailers(code, details), true);
    else sender.headers(this.id, blocks.trailersOnly(code, details), true);
    this.#connection.end(this);
    this.#close();
  }

  // Counts what is kept. False if it is too much, and the call has failed.
  #count(): boolean {
    let bytes = this.#received.length;
    for (const answer of this.#answers) bytes += answer.length;
    const more = bytes - this.#counted;
    this.#counted = bytes;
    this.#connection.partialBytes += more;
    this.#lane.partialBytes += more;
    const { bounds, counts } = this.#lane;
    if (more <= 0 || this.#state === "closed") return true;
    if (
      this.#connection.partialBytes <= bounds.partialBytesMax &&
      this.#lane.partialBytes <= bounds.partialBytesTotalMax
    )
      return true;
    counts.troubles.partial_requests++;
    this.fail(GrpcStatus.resourceExhausted, "too many requests have come only in part, or answers are not read");
    return false;
  }

  #close(): void {
    this.#state = "closed";
    this.#received = NOTHING;
    this.#answers.length = 0;
    this.#count();
    this.#call?.emit("close");
  }

  abandon(): void {
    if (this.#state !== "closed") this.#close();
  }

  giveUp(): void {
    this.fail(GrpcStatus.unavailable, "the connection is about to close");
  }

  override expire(nowUs: number): number {
    if (this.#deadlineUs > nowUs) return this.#deadlineUs;
    this.fail(GrpcStatus.deadlineExceeded, "Deadline exceeded");
    return Number.POSITIVE_INFINITY;
  }

  /** Fails a call whose one request does not come whole. Streams of requests may be silent for days. */
  override lookAtRequest(nowUs: number, stallUs: number): void {
    if (this.#method.definition.requestStream || !this.isStarvedAt(nowUs, stallUs)) return;
    this.#lane.counts.troubles.partial_requests++;
    this.fail(GrpcStatus.deadlineExceeded, "the request did not come whole in time");
  }
}

const OK: StatusError = { code: GrpcStatus.ok, details: "" };

/** A call in the form that a handler of grpc-js gets. */
class HandlerCall extends EventEmitter {
  request: unknown;
  readonly #stream: StreamedCall;

  constructor(stream: StreamedCall) {
    super();
    this.#stream = stream;
    this.on("error", (error: Partial<StatusError>) => stream.finish(error));
  }

  get writableLength(): number {
    return this.#stream.answersWaiting;
  }

  write(answer: unknown): void {
    this.#stream.answer(answer);
  }

  end(): void {
    this.#stream.finish(null);
  }
}
