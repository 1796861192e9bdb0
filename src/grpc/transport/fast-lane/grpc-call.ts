// A call of gRPC on its stream: the bytes of its request, the bounds and the rules for them, and its deadline.
// Invariant: all that is kept counts as `partialBytes` of its connection and of the server, until it is handled or the stream has closed.

import { GrpcStatus } from "../../unary.ts";
import type { Connection } from "./connection.ts";
import type { Http2Server } from "./http2-server.ts";
import { MESSAGE_HEAD_BYTES } from "./protocol.ts";
import type { RequestHead } from "./request-head.ts";
import { Stream } from "./stream.ts";

const REQUEST_BYTES_FIRST = 4_096;

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
      const larger = Buffer.allocUnsafe(Math.max(kept, Math.min(Math.max(2 * kept, REQUEST_BYTES_FIRST), roomMax)));
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
    else this.refuse(GrpcStatus.unimplemented, "the call carries no message; expected one");
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
    const { server, connection } = this;
    server.partialBytes += bytes;
    if (connection === undefined) return true;
    connection.partialBytes += bytes;
    const { partialBytesMax, partialBytesTotalMax } = server.bounds;
    return bytes <= 0 || (connection.partialBytes <= partialBytesMax && server.partialBytes <= partialBytesTotalMax);
  }

  protected refuseUnread(): void {
    this.server.counts.troubles.partial_requests++;
    this.refuse(GrpcStatus.resourceExhausted, "too many requests have come only in part, or answers are not read");
  }

  /** Ends the call at once, with a status that is not OK. */
  refuse(code: GrpcStatus, details: string): void {
    this.answers.length = 0;
    this.sent = 0;
    this.ending = { code, details };
    this.connection?.send(this);
  }

  /**
   * Fails a call that has passed its deadline, up to a second late: callers keep their deadlines themselves. Fails one whose only message is
   * not complete for `stallUs`, too; streams of messages may be silent for days.
   */
  override look(nowUs: number, stallUs: number): void {
    if (this.deadlineUs <= nowUs) this.refuse(GrpcStatus.deadlineExceeded, "Deadline exceeded");
    else if (!this.isRemoteDone && !this.takesMany && this.isStarvedAt(nowUs, stallUs)) {
      this.server.counts.troubles.partial_requests++;
      this.refuse(GrpcStatus.deadlineExceeded, "the request did not come whole in time");
    }
  }

  closed(): void {
    this.#drop();
    if (this.answers.length > 0) this.answers.length = 0;
    this.connection = undefined;
  }
}
