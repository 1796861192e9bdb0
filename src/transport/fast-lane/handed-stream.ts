// One stream that grpc-js answers: bytes, headers, trailers and resets pass both ways. Each side's windows stay its own:
// the inner stream is not read while ours can't send, and our window is given back only when grpc-js has taken the bytes.
// A caller that reads no answers is heard no further: grpc-js would hold answers for it without bound.

import { type ClientHttp2Stream, constants, type IncomingHttpHeaders } from "node:http2";
import { GrpcStatus } from "../../core/unary.ts";
import { ErrorCode, Flag } from "./protocol.ts";
import { Stream } from "./stream.ts";
import type { StreamOwner } from "./stream-owner.ts";

/** Bytes of requests that are handed in one turn: what they ask for may be a hundred times as long, and takes milliseconds. */
const PIECE_BYTES = 1_024;

/** Fields that belong to the inner connection. */
const INNER_ONLY: ReadonlySet<string> = new Set(["connection", "transfer-encoding", "keep-alive"]);

/** What a stream asks of the hand-over of its connection. */
interface HandedPlace {
  /** Opens the stream at grpc-js. Throws if Node's client sends nothing of that kind (CONNECT, for one). */
  request(): ClientHttp2Stream;
  /** Does a piece of work when its turn comes; never if the connection ends before. */
  later(work: () => void): void;
  /** The stream is gone at grpc-js, or will never get there. */
  gone(): void;
}

export class HandedStream extends Stream {
  readonly #connection: StreamOwner;
  readonly #place: HandedPlace;
  // Undefined until the turn in which it is opened.
  #inner: ClientHttp2Stream | undefined;
  // Read from the inner stream but not sent, because a window is shut.
  #waiting: Buffer[] = [];
  // Sent by the peer, but not handed on yet; its window bounds it.
  #unheard: Buffer[] = [];
  #isHanding = false;
  #hasInnerEnd = false;
  #trailers: IncomingHttpHeaders | undefined;
  #hasHeaders = false;
  // The inner body has been read to its end; and, a little later, no trailers can come any more.
  #hasEnded = false;
  #isInnerDone = false;
  #isOver = false;

  constructor(connection: StreamOwner, id: number, place: HandedPlace) {
    super();
    this.id = id;
    this.#connection = connection;
    this.#place = place;
    place.later(() => this.#open());
  }

  #open(): void {
    if (this.#isOver) return;
    let inner: ClientHttp2Stream;
    try {
      inner = this.#place.request();
    } catch {
      // The headers are well formed, but not of a request that could be sent on.
      this.#isOver = true;
      this.#place.gone();
      this.#connection.reset(this, ErrorCode.protocolError);
      return;
    }
    this.#inner = inner;
    inner.on("response", (headers, flags) => this.#takeHeaders(headers, flags));
    inner.on("data", (chunk: Buffer) => this.#takeInner(chunk));
    inner.on("trailers", (trailers) => {
      this.#trailers = trailers;
    });
    inner.on("end", () => {
      this.#hasEnded = true;
      // Node tells of trailers on a later tick than the end of the body before them.
      setImmediate(() => this.#innerDone());
    });
    inner.on("error", ignore);
    inner.on("close", () => {
      this.#place.gone();
      this.#innerClosed();
    });
    this.#hand();
  }

  takeData(bytes: Buffer, start: number, end: number, isEnd: boolean): void {
    if (this.#isOver) return;
    if (end > start) this.#unheard.push(Buffer.from(bytes.subarray(start, end)));
    if (isEnd) this.#hasInnerEnd = true;
    this.#hand();
  }

  // Hands the next piece on in its turn, unless answers wait for the peer already.
  #hand(): void {
    if (this.#inner === undefined || this.#isOver || this.#isHanding || this.#waiting.length > 0) return;
    if (this.#unheard.length === 0) {
      this.#endIfHeard();
      return;
    }
    this.#isHanding = true;
    this.#place.later(() => this.#handPiece());
  }

  #handPiece(): void {
    if (this.#isOver) return;
    if (this.#waiting.length > 0) {
      this.#isHanding = false;
      return;
    }
    const piece = this.#nextPiece();
    this.#inner?.write(piece, () => {
      if (!this.#isOver) this.#connection.credit(this, piece.length);
      // Answers to it come on later turns, if at all.
      setImmediate(() => {
        this.#isHanding = false;
        this.#hand();
      });
    });
    this.#endIfHeard();
  }

  // As much of what was sent as fits, however it was cut into frames.
  #nextPiece(): Buffer {
    const parts: Buffer[] = [];
    let room = PIECE_BYTES;
    while (room > 0 && this.#unheard.length > 0) {
      const next = this.#unheard[0] as Buffer;
      const part = next.subarray(0, room);
      if (part.length === next.length) this.#unheard.shift();
      else this.#unheard[0] = next.subarray(part.length);
      parts.push(part);
      room -= part.length;
    }
    return Buffer.concat(parts);
  }

  #endIfHeard(): void {
    if (this.#hasInnerEnd && this.#unheard.length === 0 && this.#inner?.writableEnded === false) this.#inner.end();
  }

  resume(): void {
    this.#pump();
  }

  abandon(code: ErrorCode): void {
    this.#isOver = true;
    this.#waiting = [];
    this.#unheard = [];
    if (this.#inner === undefined) this.#place.gone();
    // With its connection it ends by the end of the inner session.
    else if (!this.#connection.isClosed) this.#inner.close(code);
  }

  giveUp(): void {
    this.#giveUp(GrpcStatus.unavailable, "the connection is about to close");
  }

  /** Ends the stream because others need its place, and its connection has most. False if it has ended already. */
  displace(): boolean {
    return this.#giveUp(
      GrpcStatus.resourceExhausted,
      "too many streams are open, and this address or connection has most of them",
    );
  }

  #giveUp(status: GrpcStatus, message: string): boolean {
    if (this.#isOver) return false;
    const { blocks } = this.#connection.sender;
    const block = this.#hasHeaders ? blocks.failureTrailers(status, message) : blocks.trailersOnly(status, message);
    this.#finish(block);
    if (this.#inner === undefined) this.#place.gone();
    else this.#inner.close(constants.NGHTTP2_CANCEL);
    return true;
  }

  #takeHeaders(headers: IncomingHttpHeaders, flags: number): void {
    if (this.#isOver) return;
    this.#hasHeaders = true;
    const isEnd = (flags & Flag.endStream) !== 0;
    const block = this.#blockOf(headers);
    if (isEnd) this.#finish(block);
    else this.#connection.sender.headers(this.id, block, false);
    this.#connection.flushSoon();
    // Node tells of headers on a later tick than of the data behind them.
    this.#pump();
  }

  #takeInner(chunk: Buffer): void {
    if (this.#isOver) return;
    this.#waiting.push(chunk);
    this.#pump();
  }

  // Sends what may be sent; the rest waits, and the inner stream is not read meanwhile.
  #pump(): void {
    if (this.#isOver || !this.#hasHeaders) return;
    const { sender } = this.#connection;
    while (this.#waiting.length > 0) {
      const chunk = this.#waiting[0] as Buffer;
      const sent = this.#connection.isFull ? 0 : sender.data(this, chunk, 0, false);
      if (sent < chunk.length) {
        this.#waiting[0] = chunk.subarray(sent);
        sender.hold(this);
        this.#inner?.pause();
        this.#connection.flushSoon();
        return;
      }
      this.#waiting.shift();
    }
    if (this.#unheard.length > 0 || this.#hasInnerEnd) this.#hand();
    if (this.#isInnerDone) this.#finish(this.#blockOf(this.#trailers ?? {}));
    else if (this.#inner?.isPaused() === true) this.#inner.resume();
    this.#connection.flushSoon();
  }

  // Our side has said all: trailers, or headers that are everything.
  #finish(block: Uint8Array): void {
    this.#isOver = true;
    const { sender } = this.#connection;
    if (block.length > 0) sender.headers(this.id, block, true);
    else sender.endData(this.id);
    // A caller that has more to say has nobody to say it to; left half open, the inner stream would stay for good.
    if (!this.isRemoteDone) this.#inner?.close(constants.NGHTTP2_NO_ERROR);
    this.#connection.end(this);
    this.#connection.flushSoon();
  }

  #innerDone(): void {
    this.#isInnerDone = true;
    this.#pump();
  }

  #innerClosed(): void {
    if (this.#isOver) return;
    const code = this.#inner?.rstCode ?? ErrorCode.noError;
    if (code === ErrorCode.noError && this.#hasEnded && this.#hasHeaders) {
      this.#innerDone();
      return;
    }
    this.#isOver = true;
    this.#connection.reset(this, code === ErrorCode.noError ? ErrorCode.internalError : (code as ErrorCode));
  }

  #blockOf(headers: IncomingHttpHeaders): Uint8Array {
    const { encoder } = this.#connection.sender.blocks;
    encoder.begin();
    for (const [name, value] of Object.entries(headers)) {
      if (value === undefined || INNER_ONLY.has(name)) continue;
      for (const text of Array.isArray(value) ? value : [value]) encoder.field(name, String(text));
    }
    return encoder.end();
  }
}

function ignore(): void {
  // The close that follows tells the peer.
}
