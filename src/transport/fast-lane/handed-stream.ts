// A stream that grpc-js answers: bytes, headers, trailers and resets pass in both directions. Each side keeps its own flow control: the
// inner stream is not read while the peer's window is shut, and the peer gets window back only when grpc-js has taken its bytes. While a
// caller reads no answers, its requests wait too: grpc-js would queue answers for it without bound.

import { type ClientHttp2Stream, constants, type IncomingHttpHeaders } from "node:http2";
import { GrpcStatus } from "../../core/unary.ts";
import { ErrorCode, Flag } from "./protocol.ts";
import { Stream } from "./stream.ts";
import type { StreamOwner } from "./stream-owner.ts";

/** Bytes of requests that are handed over in one turn: their answers may be a hundred times as long, and take milliseconds. */
const PIECE_BYTES = 1_024;

/** Fields that belong to the inner connection alone. */
const INNER_ONLY: ReadonlySet<string> = new Set(["connection", "transfer-encoding", "keep-alive"]);

/** What a stream asks of its connection's hand-over. */
interface HandedPlace {
  /** Opens the stream at grpc-js. Throws if node:http2's client can't send such a request (CONNECT, for one). */
  request(): ClientHttp2Stream;
  /** Does a piece of work in a turn of its own; never, if the connection ends before. */
  later(work: () => void): void;
  /** The stream is ending: it can't be displaced any more. */
  ending(): void;
  /** The stream has ended at grpc-js, or will never get there. */
  gone(): void;
}

export class HandedStream extends Stream {
  readonly #connection: StreamOwner;
  readonly #place: HandedPlace;
  // Undefined until the turn in which it is opened.
  #inner: ClientHttp2Stream | undefined;
  // Read from the inner stream and not sent yet, because a window is shut.
  #waiting: Buffer[] = [];
  // Received from the peer and not handed over yet; the stream's window bounds it.
  #unheard: Buffer[] = [];
  #isHanding = false;
  #hasInnerEnd = false;
  #trailers: IncomingHttpHeaders | undefined;
  #hasHeaders = false;
  // The inner body has been read to its end. `#isInnerDone`, a little later: no trailers can come any more.
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
      // The headers are well-formed, but node:http2 can't send such a request.
      this.#end();
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
      // Node emits trailers on a later tick than the end of the body before them.
      setImmediate(() => this.#innerDone());
    });
    inner.on("error", ignore);
    inner.on("close", () => {
      this.#place.gone();
      this.#innerClosed();
    });
    this.#hand();
  }

  get waitsForPeer(): boolean {
    return false; // bounded by fair-hand-over.ts
  }

  takeData(bytes: Buffer, start: number, end: number, isEnd: boolean): void {
    if (this.#isOver) return;
    if (end > start) this.#unheard.push(Buffer.from(bytes.subarray(start, end)));
    if (isEnd) this.#hasInnerEnd = true;
    this.#hand();
  }

  // Hands the next piece over in its turn, unless answers already wait for the peer.
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
      // Its answers come in later turns, if at all.
      setImmediate(() => {
        this.#isHanding = false;
        this.#hand();
      });
    });
    this.#endIfHeard();
  }

  // The next PIECE_BYTES of what was received, whatever frames it came in.
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
    this.#end();
    this.#waiting = [];
    this.#unheard = [];
    if (this.#inner === undefined) this.#place.gone();
    // If the connection has ended, the inner session ends and the stream with it.
    else if (!this.#connection.isClosed) this.#inner.close(code);
  }

  giveUp(): void {
    this.#giveUp(GrpcStatus.unavailable, "the connection is about to close");
  }

  /** Ends the stream because others need its place and its address or connection has most. False if it has ended already. */
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
    // Node may emit headers on a later tick than the data behind them.
    this.#pump();
  }

  #takeInner(chunk: Buffer): void {
    if (this.#isOver) return;
    this.#waiting.push(chunk);
    this.#pump();
  }

  // Sends what the windows allow. The rest waits, and the inner stream is paused meanwhile.
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

  // Ends our side: with trailers, or with headers that are the whole answer.
  #finish(block: Uint8Array): void {
    this.#end();
    const { sender } = this.#connection;
    if (block.length > 0) sender.headers(this.id, block, true);
    else sender.endData(this.id);
    // What the caller still sends has no receiver; a half-open inner stream would never close.
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
    this.#end();
    this.#connection.reset(this, code === ErrorCode.noError ? ErrorCode.internalError : (code as ErrorCode));
  }

  #end(): void {
    this.#isOver = true;
    this.#place.ending();
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
