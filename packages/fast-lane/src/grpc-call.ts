// A gRPC call on its stream: the bytes of its request with their bounds, and its deadline. UnaryStream is a call with
// one answer; streamed-call.ts has all others. Invariant: all that is kept counts as `partialBytes` of its connection
// and of the server, until it is handled or the stream has closed.

import type { Connection } from "./connection.ts";
import type { RequestHead } from "./header-blocks.ts";
import type { Http2Server } from "./http2-server.ts";
import { GrpcStatus, type UnaryMethod, type UnaryReply } from "./methods.ts";
import { MESSAGE_HEAD_BYTES } from "./protocol.ts";
import { messageOf } from "./sender.ts";
import { Stream } from "./stream.ts";

/** A peer that sends one byte of a message in each of its streams must not hold much more than it has sent. */
const REQUEST_BYTES_FIRST = 512;

export abstract class GrpcCall extends Stream {
  protected readonly server: Http2Server;
  /** Undefined when the stream has closed. */
  protected connection: Connection | undefined;
  protected deadlineUs = Number.POSITIVE_INFINITY;
  // What has come and was not taken: the bytes of `#request` from `#taken` to `#filled`.
  #request: Buffer | undefined;
  #taken = 0;
  #filled = 0;

  constructor(server: Http2Server) {
    super();
    this.server = server;
  }

  /** True if any number of messages may come; otherwise the request is one message. */
  protected abstract get takesMany(): boolean;

  /** Begins the call on a new stream. */
  protected begin(connection: Connection, id: number, head: RequestHead): void {
    this.id = id;
    this.connection = connection;
    this.deadlineUs =
      head.timeoutUs === Number.POSITIVE_INFINITY ? head.timeoutUs : this.server.turnNowUs() + head.timeoutUs;
  }

  /** Keeps part of the request. False if the call has been refused because of it. */
  protected gather(bytes: Buffer, start: number, end: number): boolean {
    if (start === end) return true;
    const size = this.#filled + end - start;
    let isWithinBounds = true;
    if (this.#request === undefined || size > this.#request.length) {
      const kept = size - this.#taken;
      // A single request needs no more room than the longest message.
      const roomMax = this.takesMany ? 2 * kept : this.server.options.maxMessageBytes + MESSAGE_HEAD_BYTES;
      // Not of the pool: what is kept of its 8 KB would not be counted.
      const larger = Buffer.allocUnsafeSlow(Math.max(kept, Math.min(Math.max(2 * kept, REQUEST_BYTES_FIRST), roomMax)));
      isWithinBounds = this.count(larger.length - (this.#request?.length ?? 0));
      this.#request?.copy(larger, 0, this.#taken, this.#filled);
      this.#request = larger;
      this.#filled -= this.#taken;
      this.#taken = 0;
    }
    bytes.copy(this.#request, this.#filled, start, end);
    this.#filled += end - start;
    const fault = this.#faultOf(this.#request);
    if (fault !== undefined) this.refuse(...fault);
    else if (!isWithinBounds) this.refuseUnread();
    return fault === undefined && isWithinBounds;
  }

  #faultOf(request: Buffer): [GrpcStatus, string] | undefined {
    if (request[this.#taken] !== 0) return [GrpcStatus.internal, "a message that does not begin with 0"];
    const length = this.#messageBytes();
    const { maxMessageBytes } = this.server.options;
    if (length > maxMessageBytes) {
      return [GrpcStatus.resourceExhausted, `Received message larger than max (${length} vs ${maxMessageBytes})`];
    }
    if (length >= 0 && !this.takesMany && this.keptBytes > length + MESSAGE_HEAD_BYTES)
      return [GrpcStatus.unimplemented, "bytes after the message"];
    return undefined;
  }

  /** Bytes of the request that have come and were not taken. */
  protected get keptBytes(): number {
    return this.#filled - this.#taken;
  }

  // The length that the next message says, or -1.
  #messageBytes(): number {
    return this.keptBytes < MESSAGE_HEAD_BYTES ? -1 : (this.#request as Buffer).readUInt32BE(this.#taken + 1);
  }

  protected hasMessage(): boolean {
    const length = this.#messageBytes();
    return length >= 0 && this.keptBytes >= length + MESSAGE_HEAD_BYTES;
  }

  /** Whether a request that has ended has its message; refuses the call if it has not. */
  protected requireMessage(): boolean {
    if (this.hasMessage()) return true;
    if (this.keptBytes > 0) this.refuse(GrpcStatus.internal, "the message ends early");
    else this.refuse(GrpcStatus.unimplemented, "the call has no message; expected one");
    return false;
  }

  /** Takes out the next message, without its head. Its bytes are never written to again. */
  protected takeMessage(): Buffer {
    const start = this.#taken + MESSAGE_HEAD_BYTES;
    this.#taken = start + this.#messageBytes();
    const message = (this.#request as Buffer).subarray(start, this.#taken);
    if (this.keptBytes === 0) this.#drop();
    return message;
  }

  #drop(): void {
    if (this.#request === undefined) return;
    this.count(-this.#request.length);
    this.#request = undefined;
    this.#taken = 0;
    this.#filled = 0;
  }

  /** Adds to what is kept for calls. False if that is more than may be. */
  protected count(bytes: number): boolean {
    const { connection, server } = this;
    if (connection === undefined) return true;
    const isWithinTotal = connection.keep(bytes);
    return bytes <= 0 || (isWithinTotal && connection.partialBytes <= server.bounds.partialBytesMax);
  }

  protected refuseUnread(): void {
    this.server.counts.troubles.partial_requests++;
    this.refuse(GrpcStatus.resourceExhausted, "too many incomplete requests or unread answers");
  }

  /** Ends the call at once, with a status that is not OK. */
  refuse(code: GrpcStatus, details: string): void {
    this.answers.length = 0;
    this.sent = 0;
    this.ending = { code, details };
    this.connection?.send(this);
  }

  /**
   * Fails a call that has passed its deadline, up to a second late: callers keep their deadlines themselves. Fails one
   * whose only message is not complete for `stallUs`, too; streams of messages may be silent for days.
   */
  override look(nowUs: number, stallUs: number): void {
    if (this.deadlineUs <= nowUs) this.refuse(GrpcStatus.deadlineExceeded, "Deadline exceeded");
    else if (!this.isRemoteDone && !this.takesMany && this.isStarvedAt(nowUs, stallUs)) {
      this.server.counts.troubles.partial_requests++;
      this.refuse(GrpcStatus.deadlineExceeded, "the request did not arrive in full in time");
    }
  }

  closed(): void {
    this.#drop();
    if (this.answers.length > 0) this.answers.length = 0;
    this.connection = undefined;
  }
}

/**
 * Streams that must rest in the pool before one is used again, so that a handler's second reply is noticed, and not
 * sent.
 */
const RESTING_STREAMS = 256;
const POOLED_STREAMS_MAX = 4_096;
const NO_METHOD: UnaryMethod = { path: "", handler: { handle: () => undefined } };

/** The pool of the streams of a server, and the calls of this turn. */
export class UnaryCalls {
  readonly #server: Http2Server;
  // Calls read in this turn. Some may have been reset since, and their object may serve another call.
  readonly #read: UnaryStream[] = [];
  readonly #serveAll = () => this.#serve();
  // A ring of resting streams; the oldest is used first.
  readonly #resting: (UnaryStream | undefined)[] = new Array(POOLED_STREAMS_MAX);
  #oldest = 0;
  #count = 0;

  constructor(server: Http2Server) {
    this.#server = server;
  }

  /** Opens a stream: with an object that has rested, or else a new one. */
  open(connection: Connection, id: number, head: RequestHead): UnaryStream {
    const stream = this.#count <= RESTING_STREAMS ? new UnaryStream(this.#server, this) : this.#rested();
    stream.open(connection, id, head);
    return stream;
  }

  #rested(): UnaryStream {
    const at = this.#oldest;
    this.#oldest = (at + 1) & (POOLED_STREAMS_MAX - 1);
    this.#count--;
    return this.#resting[at] as UnaryStream;
  }

  /** Takes back a stream that has closed and whose handler has replied. */
  release(stream: UnaryStream): void {
    if (this.#count === POOLED_STREAMS_MAX) return;
    this.#resting[(this.#oldest + this.#count++) & (POOLED_STREAMS_MAX - 1)] = stream;
  }

  /** Serves a call at the end of the turn, when all sockets have been read. */
  serveSoon(stream: UnaryStream): void {
    if (this.#read.length === 0) setImmediate(this.#serveAll);
    this.#read.push(stream);
  }

  // The list can't grow here, because only reading adds to it.
  #serve(): void {
    this.#server.beginTurn();
    for (let i = 0; i < this.#read.length; i++) (this.#read[i] as UnaryStream).serve();
    this.#read.length = 0;
  }
}

/**
 * `reading`: the request is not whole, or waits for the end of the turn; `handling`: the handler owes a reply;
 * `answering`: it has replied, or nothing was to be asked of it; `abandoned`: the stream has closed, and the handler
 * still owes a reply.
 */
type State = "idle" | "reading" | "handling" | "answering" | "abandoned";

class UnaryStream extends GrpcCall implements UnaryReply {
  readonly #calls: UnaryCalls;
  #state: State = "idle";
  #method: UnaryMethod = NO_METHOD;
  // The whole request, until it is served.
  #message: Buffer | undefined;
  /** The `traceparent` of the present request. */
  traceparent: string | undefined;
  onGone: (() => void) | undefined;

  constructor(server: Http2Server, calls: UnaryCalls) {
    super(server);
    this.#calls = calls;
  }

  protected get takesMany(): boolean {
    return false;
  }

  /** Prepares the object for a new stream. */
  open(connection: Connection, id: number, head: RequestHead): void {
    this.begin(connection, id, head);
    this.received = 0;
    this.consumed = 0;
    this.starvedUs = 0;
    this.hasHead = false;
    this.sent = 0;
    this.ending = undefined;
    this.traceparent = head.traceparent;
    this.#method = head.method as UnaryMethod;
    this.#state = "reading";
  }

  takeData(bytes: Buffer, start: number, end: number, isEnd: boolean): void {
    if (isEnd && this.keptBytes === 0 && end - start >= MESSAGE_HEAD_BYTES) {
      const length = bytes.readUInt32BE(start + 1);
      if (
        bytes[start] === 0 &&
        length === end - start - MESSAGE_HEAD_BYTES &&
        length <= this.server.options.maxMessageBytes
      ) {
        this.#serveSoon(bytes.subarray(start + MESSAGE_HEAD_BYTES, end));
        return;
      }
    }
    this.connection?.credit(this, end - start);
    if (this.gather(bytes, start, end) && isEnd && this.requireMessage()) this.#serveSoon(this.takeMessage());
  }

  // After a pause of this process, calls and their cancellations lie in the sockets together, and a call that was
  // served before all of it was read would be charged although its caller has cancelled it. So a call waits for the end
  // of the turn in which it was read.
  #serveSoon(message: Buffer): void {
    this.#message = message;
    this.#calls.serveSoon(this);
  }

  /** Gives the message to the handler, unless the call has been reset, or has been served. */
  serve(): void {
    const message = this.#message;
    if (message === undefined) return;
    this.#message = undefined;
    const { server } = this;
    const { inFlightMax, observer } = server.options;
    server.counts.unaryCalls++;
    if (server.inFlight >= inFlightMax) {
      observer.overloaded(this.#method.path);
      this.refuse(GrpcStatus.resourceExhausted, `more than ${inFlightMax} calls in flight`);
      return;
    }
    if (this.deadlineUs !== Number.POSITIVE_INFINITY && this.deadlineUs <= server.turnNowUs()) {
      this.refuse(GrpcStatus.deadlineExceeded, server.options.lateDetails);
      return;
    }
    server.inFlight++;
    this.#state = "handling";
    try {
      this.#method.handler.handle(message, this.deadlineUs, this);
    } catch (error) {
      observer.handlerFailed(this.#method.path, error);
      if (this.#owesReply()) this.fail(GrpcStatus.internal, "internal error");
    }
  }

  #owesReply(): boolean {
    return this.#state === "handling" || this.#state === "abandoned";
  }

  get waitsForPeer(): boolean {
    return !this.isRemoteDone || this.answers.length > 0;
  }

  /**
   * A call whose deadline has passed is ended first: what is given back because nobody hears of it must not be answered
   * after that.
   */
  get isGone(): boolean {
    if (this.connection !== undefined) this.look(this.server.nowUs(), Number.POSITIVE_INFINITY);
    return this.connection === undefined;
  }

  ok(message: Uint8Array): void {
    if (!this.#takeReply() || this.connection === undefined || this.connection.answer(this, message)) return;
    this.keepAnswer(messageOf(message));
    this.ending = OK;
    this.connection.send(this);
  }

  fail(status: GrpcStatus, message: string): void {
    if (this.#takeReply()) this.refuse(status, message);
  }

  // False if the handler has replied already.
  #takeReply(): boolean {
    if (!this.#owesReply()) {
      this.server.options.observer.handlerFailed(this.#method.path, new Error("a call is replied to once"));
      return false;
    }
    this.server.inFlight--;
    if (this.#state === "abandoned") this.#rest();
    else this.#state = "answering";
    return true;
  }

  #rest(): void {
    this.#state = "idle";
    this.#calls.release(this);
  }

  override look(nowUs: number, stallUs: number): void {
    if (this.#state !== "answering") super.look(nowUs, stallUs);
  }

  override closed(): void {
    super.closed();
    this.#message = undefined;
    if (this.#state === "handling") {
      this.#state = "abandoned";
      this.onGone?.();
    } else this.#rest();
  }
}

const OK = { code: GrpcStatus.ok, details: "" };
