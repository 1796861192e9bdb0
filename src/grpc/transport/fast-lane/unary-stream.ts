// A unary call on its stream: gathers the request, gives it to the handler, sends the reply. Objects are pooled: one is used again only
// after its stream has closed and its handler has replied.

import { InvariantError } from "../../../engine/base/invariant.ts";
import { GrpcStatus, type UnaryReply } from "../../unary.ts";
import type { CallContext, UnaryMethod } from "../unary-call.ts";
import type { Bounds, LaneCounts } from "./bounds.ts";
import type { Deadlines } from "./deadlines.ts";
import { type ErrorCode, MESSAGE_HEAD_BYTES } from "./protocol.ts";
import type { RequestHead } from "./request-head.ts";
import type { AnsweredStream } from "./sender.ts";
import { Stream } from "./stream.ts";
import type { StreamOwner } from "./stream-owner.ts";
import type { Encoding, Refusal, Unpacking } from "./unpacking.ts";

const MESSAGE_BYTES_FIRST = 4_096;
const NO_METHOD: UnaryMethod = { path: "", handler: { handle: () => undefined } };

/** The connection, as a unary call sees it. */
export interface CallOwner extends StreamOwner {
  /** Bytes that are kept for its calls: of requests that are not whole or not handled, and of answers of streams. */
  partialBytes: number;
  /** Sends the good answer of a call, or keeps it waiting for a window. */
  answer(stream: UnaryStream, message: Uint8Array): void;
  /** Continues with an answer that had to wait. */
  answerRest(stream: UnaryStream, answer: Buffer, sent: number): void;
  /** Ends a call with a status other than OK. */
  answerFailure(stream: UnaryStream, status: GrpcStatus, message: string): void;
}

/** The lane, as a unary call sees it. */
export interface CallLane {
  readonly options: { readonly maxMessageBytes: number };
  readonly bounds: Bounds;
  readonly counts: LaneCounts;
  readonly context: CallContext;
  readonly deadlines: Deadlines;
  readonly unpacking: Unpacking;
  /** The same, over all connections. */
  partialBytes: number;
  /** The time, read at most once a turn. */
  turnNowUs(): number;
  /** Serves a call at the end of the turn, when all sockets have been read. `message` must stay unchanged until then. */
  serveSoon(stream: UnaryStream, connection: CallOwner, message: Buffer): void;
  /** Takes back a stream that has closed and whose handler has replied. */
  release(stream: UnaryStream): void;
}

export class UnaryStream extends Stream implements AnsweredStream, UnaryReply {
  readonly #lane: CallLane;
  #connection: CallOwner | undefined;
  #method: UnaryMethod = NO_METHOD;
  #deadlineUs = Number.POSITIVE_INFINITY;
  /** The `traceparent` of the present request. */
  traceparent: string | undefined;
  #encoding: Encoding | undefined;
  // True if no handler owes a reply: it has not been called yet, or it has replied.
  #isReplied = true;
  // A message that is spread over several frames, as far as it has come, with its head.
  #request: Buffer | undefined;
  #filled = 0;
  // An answer that waits for a window, and how much of it was sent.
  #waiting: Buffer | undefined;
  #sent = 0;

  constructor(lane: CallLane) {
    super();
    this.#lane = lane;
  }

  /** Prepares the object for a new stream. */
  open(connection: CallOwner, id: number, head: RequestHead): void {
    this.id = id;
    this.received = 0;
    this.consumed = 0;
    this.isRemoteDone = false;
    this.contentLength = head.contentLength;
    this.#encoding = head.encoding;
    this.traceparent = head.traceparent;
    this.starvedUs = 0;
    this.#connection = connection;
    this.#method = head.method as UnaryMethod;
    this.#deadlineUs =
      head.timeoutUs === Number.POSITIVE_INFINITY ? head.timeoutUs : this.#lane.turnNowUs() + head.timeoutUs;
  }

  takeData(bytes: Buffer, start: number, end: number, isEnd: boolean): void {
    if (isEnd && this.#filled === 0 && end - start >= MESSAGE_HEAD_BYTES) {
      const length = bytes.readUInt32BE(start + 1);
      if (
        bytes[start] === 0 &&
        length === end - start - MESSAGE_HEAD_BYTES &&
        length <= this.#lane.options.maxMessageBytes
      ) {
        this.#serve(bytes.subarray(start + MESSAGE_HEAD_BYTES, end));
        return;
      }
    }
    if (!this.#gather(bytes, start, end) || !isEnd) return;
    const request = this.#request;
    const filled = this.#filled;
    this.#dropRequest();
    if (request === undefined) {
      this.#refuse(GrpcStatus.unimplemented, "the call carries no message; expected one");
    } else if (filled < MESSAGE_HEAD_BYTES || filled < MESSAGE_HEAD_BYTES + request.readUInt32BE(1)) {
      this.#refuse(GrpcStatus.internal, "the message ends early");
    } else if (request[0] === 1) this.#unpack(request.subarray(MESSAGE_HEAD_BYTES, filled), this.#encoding as Encoding);
    else this.#serve(request.subarray(MESSAGE_HEAD_BYTES, filled));
  }

  #unpack(packed: Buffer, encoding: Encoding): void {
    const { id } = this;
    const connection = this.#connection;
    const { unpacking, options } = this.#lane;
    const refusal = unpacking.unpack(packed, encoding, options.maxMessageBytes, (message) => {
      // The stream may have been reset meanwhile.
      if (this.#connection !== connection || this.id !== id) return;
      if (typeof message === "string") this.#refusePacked(message);
      else this.#serve(message);
    });
    if (refusal !== undefined) this.#refusePacked(refusal);
  }

  #refusePacked(why: Refusal): void {
    if (why === "damaged") {
      this.#refuse(GrpcStatus.internal, "Failed to decompress message");
      return;
    }
    const { counts, options, bounds } = this.#lane;
    counts.troubles.packed_requests++;
    const most =
      why === "too long"
        ? `a message that unpacks to more than ${options.maxMessageBytes} bytes, or than it says`
        : `more than ${bounds.unpackedBytesTotalMax} bytes of compressed messages at once`;
    this.#refuse(GrpcStatus.resourceExhausted, most);
  }

  // False if the call has been refused because of these bytes.
  #gather(bytes: Buffer, start: number, end: number): boolean {
    if (start === end) return true;
    const connection = this.#connection as CallOwner;
    const size = this.#filled + end - start;
    const { maxMessageBytes } = this.#lane.options;
    if (this.#request === undefined || size > this.#request.length) {
      const room = Math.min(Math.max(2 * size, MESSAGE_BYTES_FIRST), maxMessageBytes + MESSAGE_HEAD_BYTES);
      const larger = Buffer.allocUnsafe(Math.max(room, size));
      const more = larger.length - (this.#request?.length ?? 0);
      connection.partialBytes += more;
      this.#lane.partialBytes += more;
      this.#request?.copy(larger, 0, 0, this.#filled);
      this.#request = larger;
    }
    bytes.copy(this.#request, this.#filled, start, end);
    this.#filled = size;
    connection.credit(this, end - start);
    const fault = this.#faultOf(this.#request, size);
    if (fault !== undefined) {
      this.#dropRequest();
      this.#refuse(...fault);
      return false;
    }
    return true;
  }

  #faultOf(request: Buffer, size: number): [GrpcStatus, string] | undefined {
    if (request[0] === 1 && this.#encoding === undefined)
      return [GrpcStatus.internal, "a compressed message without a grpc-encoding"];
    if ((request[0] as number) > 1) return [GrpcStatus.internal, "a message that does not begin with 0 or 1"];
    if (size >= MESSAGE_HEAD_BYTES) {
      const length = request.readUInt32BE(1);
      const { maxMessageBytes } = this.#lane.options;
      if (length > maxMessageBytes) {
        return [GrpcStatus.resourceExhausted, `Received message larger than max (${length} vs ${maxMessageBytes})`];
      }
      if (size > length + MESSAGE_HEAD_BYTES) return [GrpcStatus.unimplemented, "bytes after the message"];
    }
    const { counts, bounds } = this.#lane;
    const { partialBytes } = this.#connection as CallOwner;
    if (partialBytes <= bounds.partialBytesMax && this.#lane.partialBytes <= bounds.partialBytesTotalMax)
      return undefined;
    counts.troubles.partial_requests++;
    return [GrpcStatus.resourceExhausted, "too many requests have come only in part"];
  }

  #dropRequest(): void {
    if (this.#request !== undefined && this.#connection !== undefined) {
      this.#connection.partialBytes -= this.#request.length;
      this.#lane.partialBytes -= this.#request.length;
    }
    this.#request = undefined;
    this.#filled = 0;
  }

  // After a pause of this process, calls and their cancellations lie in the sockets together, and a call that was served before all of it
  // was read would be charged although its caller has cancelled it. So a call waits for the end of the turn in which it was read.
  #serve(message: Buffer): void {
    this.#lane.serveSoon(this, this.#connection as CallOwner, message);
  }

  get waitsForPeer(): boolean {
    return !this.isRemoteDone || this.#waiting !== undefined;
  }

  /** Gives the message to the handler, unless the object has left stream `id` of `connection`: the stream may have been reset. */
  serveNow(connection: CallOwner, id: number, message: Buffer): void {
    if (this.#connection !== connection || this.id !== id) return;
    const { context, counts } = this.#lane;
    counts.unaryCalls++;
    if (context.inFlight >= context.inFlightMax) {
      context.observer.overloaded(this.#method.path);
      this.#refuse(GrpcStatus.resourceExhausted, `more than ${context.inFlightMax} calls in flight`);
      return;
    }
    if (this.#deadlineUs !== Number.POSITIVE_INFINITY && this.#deadlineUs <= this.#lane.turnNowUs()) {
      this.#refuse(GrpcStatus.deadlineExceeded, "the deadline passed before the call was read");
      return;
    }
    context.inFlight++;
    this.#isReplied = false;
    try {
      this.#method.handler.handle(message, this.#deadlineUs, this);
    } catch (error) {
      context.observer.handlerFailed(this.#method.path, error);
      if (!this.#isReplied) this.fail(GrpcStatus.internal, "internal error");
    }
    if (!this.#isReplied) this.#lane.deadlines.note(this.#deadlineUs);
  }

  get isGone(): boolean {
    return this.#connection === undefined;
  }

  ok(message: Uint8Array): void {
    if (!this.#isFirstReply()) return;
    const connection = this.#connection;
    if (connection === undefined) this.#lane.release(this);
    else connection.answer(this, message);
  }

  fail(status: GrpcStatus, message: string): void {
    if (!this.#isFirstReply()) return;
    if (this.#connection === undefined) this.#lane.release(this);
    else this.#refuse(status, message);
  }

  #isFirstReply(): boolean {
    const { context } = this.#lane;
    if (this.#isReplied) {
      context.observer.handlerFailed(this.#method.path, new InvariantError("a call is replied to once"));
      return false;
    }
    this.#isReplied = true;
    context.inFlight--;
    return true;
  }

  #refuse(status: GrpcStatus, message: string): void {
    this.#connection?.answerFailure(this, status, message);
  }

  /** Answers DEADLINE_EXCEEDED if the deadline has passed; the handler's later reply is dropped. */
  override expire(nowUs: number): number {
    if (this.#isReplied) return Number.POSITIVE_INFINITY;
    if (this.#deadlineUs > nowUs) return this.#deadlineUs;
    this.#refuse(GrpcStatus.deadlineExceeded, "Deadline exceeded");
    return Number.POSITIVE_INFINITY;
  }

  /** Fails a call whose request is not complete by its deadline, or for `stallUs` since the first look. */
  override lookAtRequest(nowUs: number, stallUs: number): void {
    if (this.#deadlineUs <= nowUs) {
      this.#refuse(GrpcStatus.deadlineExceeded, "the deadline passed before the request was whole");
    } else if (this.isStarvedAt(nowUs, stallUs)) {
      this.#lane.counts.troubles.partial_requests++;
      this.#refuse(GrpcStatus.deadlineExceeded, "the request did not come whole in time");
    }
  }

  wait(answer: Buffer, sent: number): void {
    if (this.#waiting === undefined || sent > this.#sent) this.starvedUs = 0;
    this.#waiting = answer;
    this.#sent = sent;
  }

  resume(): void {
    const answer = this.#waiting;
    if (answer === undefined) return;
    (this.#connection as CallOwner).answerRest(this, answer, this.#sent);
  }

  /** The connection has closed the stream: nothing more can be sent on it. */
  closed(): void {
    this.#dropRequest();
    this.#waiting = undefined;
    this.#connection = undefined;
    if (this.#isReplied) this.#lane.release(this);
  }

  abandon(_code: ErrorCode): void {
    this.closed();
  }

  giveUp(): void {
    // A unary call is short: it finishes, or is cut off with the connection.
  }
}
