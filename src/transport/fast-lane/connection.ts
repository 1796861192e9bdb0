// One connection past its preface: what may still be said on it, which streams are open, when output goes to the socket,
// and how it ends. Frames that come in are read in frame-intake.ts; age, keepalive and drain are in connection-life.ts.

import type { Socket } from "node:net";
import type { GrpcStatus } from "../../core/unary.ts";
import { Allowances, FloodError } from "./allowances.ts";
import type { Trouble } from "./bounds.ts";
import { ConnectionLife } from "./connection-life.ts";
import { FrameIntake, RECEIVE_WINDOW } from "./frame-intake.ts";
import { FrameReader } from "./frame-reader.ts";
import { HeaderListTooLarge } from "./hpack-decoder.ts";
import type { Lane } from "./lane.ts";
import { Output, type OutputOwner } from "./output.ts";
import { ConnectionError, ErrorCode, Setting, WINDOW_DEFAULT } from "./protocol.ts";
import { Sender } from "./sender.ts";
import type { Stream } from "./stream.ts";
import { StreamTable } from "./stream-table.ts";
import { UnaryStream } from "./unary-stream.ts";

/** Made by the listener, which feeds it what the socket reads. */
export class Connection implements OutputOwner {
  readonly lane: Lane;
  readonly socket: Socket;
  /** Why no call of this peer is served; undefined serves it. */
  readonly refusal: string | undefined;
  readonly sender: Sender;
  readonly streams = new StreamTable();
  readonly allowances: Allowances;
  readonly life: ConnectionLife;
  /** Bytes held of unary requests that have not come whole. */
  partialBytes = 0;
  /** Nothing is read or sent any more, but for what was written before. */
  isClosed = false;
  readonly #intake: FrameIntake;
  readonly #reader: FrameReader;
  #notedUnread = 0;
  #isReading = false;
  #willFlush = false;
  #isPaused = false;

  constructor(lane: Lane, socket: Socket, refusal: string | undefined) {
    this.lane = lane;
    this.refusal = refusal;
    this.socket = socket;
    this.sender = new Sender(new Output(socket, lane.chunks, this));
    this.allowances = new Allowances(lane.counts);
    this.life = new ConnectionLife(this);
    this.#intake = new FrameIntake(this);
    this.#reader = new FrameReader(this.#intake);
    lane.connections.add(this);
    lane.counts.connections++;
    this.sender.settings([
      [Setting.maxConcurrentStreams, lane.options.maxConcurrentStreams],
      [Setting.maxHeaderListSize, lane.bounds.headerListBytesMax],
    ]);
    this.sender.windowUpdate(0, RECEIVE_WINDOW - WINDOW_DEFAULT);
  }

  /** Bytes of output that the peer has not read. */
  get unreadBytes(): number {
    return this.sender.output.unread;
  }

  /** True while the peer leaves so much unread that streams which can wait should. */
  get isFull(): boolean {
    return this.unreadBytes > this.lane.bounds.unreadBytesPause;
  }

  /** True if a frame or a header block has begun and not ended. */
  get isWithinFrame(): boolean {
    return this.#reader.isWithinFrame || this.#intake.isWithinBlock;
  }

  /** Moves with every frame, and every header block, that has come whole. */
  get piecesRead(): number {
    return this.#intake.pieces;
  }

  /** Takes what the socket has read, from `start` on: all of it belongs to one turn, at whose end answers go out. */
  read(chunk: Buffer, start: number): void {
    if (this.isClosed) return;
    this.lane.beginTurn();
    this.life.noteRead();
    this.#isReading = true;
    try {
      this.#reader.read(chunk, start);
    } catch (error) {
      this.fail(error);
    }
    this.#isReading = false;
    this.flush();
  }

  /** Sends the good answer of a call, or has it wait for a window. */
  answer(stream: UnaryStream, message: Uint8Array): void {
    if (this.sender.answer(stream, message)) this.#finish(stream);
    this.flushSoon();
  }

  /** Goes on with an answer that had to wait. */
  answerRest(stream: UnaryStream, answer: Buffer, sent: number): void {
    if (this.sender.answerRest(stream, answer, sent)) this.#finish(stream);
    this.flushSoon();
  }

  /** Ends a call with a status that is not OK. */
  answerFailure(stream: UnaryStream, status: GrpcStatus, message: string): void {
    this.sender.headers(stream.id, this.sender.blocks.trailersOnly(status, message), true);
    this.#finish(stream);
    this.flushSoon();
  }

  #finish(stream: UnaryStream): void {
    this.end(stream);
    stream.closed();
  }

  /** Closes a stream on which our side has said all; what the peer still sends on it is passed over. */
  end(stream: Stream): void {
    if (!stream.isRemoteDone) {
      this.sender.rstStream(stream.id, ErrorCode.noError);
      this.streams.noteReset(stream.id);
    }
    this.allowances.noteCall();
    this.remove(stream);
  }

  /** Ends a stream by RST_STREAM. */
  reset(stream: Stream, code: ErrorCode): void {
    this.refuse(stream.id, code);
    this.remove(stream);
    stream.abandon(code);
    this.flushSoon();
  }

  /** Sends RST_STREAM for a stream that was not opened. */
  refuse(id: number, code: ErrorCode): void {
    this.streams.noteReset(id);
    this.sender.rstStream(id, code);
  }

  /** Forgets a stream that is over. */
  remove(stream: Stream): void {
    this.lane.streams--;
    this.streams.remove(stream);
    if (this.sender.blocked.size > 0) this.sender.release(stream);
    if (this.streams.size === 0) this.life.noteQuiet();
  }

  /** Gives a stream's window back what was consumed. */
  credit(stream: Stream, bytes: number): void {
    stream.consumed += bytes;
    if (stream.consumed < WINDOW_DEFAULT / 2 || stream.isRemoteDone) return;
    this.sender.windowUpdate(stream.id, stream.consumed);
    stream.receiveWindow += stream.consumed;
    stream.consumed = 0;
    this.flushSoon();
  }

  /** Has output go out at the end of what runs now. */
  flushSoon(): void {
    if (this.#isReading || this.#willFlush) return;
    this.#willFlush = true;
    this.lane.flushSoon(this);
  }

  /** Hands the output of this turn to the socket. */
  flush(): void {
    this.#willFlush = false;
    const { output } = this.sender;
    output.flush();
    this.#noteUnread();
    const { bounds } = this.lane;
    if (output.unread <= bounds.unreadBytesPause || this.isClosed) return;
    if (output.unread > bounds.unreadBytesMax) this.cut("unread_output");
    else if (!this.#isPaused) {
      this.#isPaused = true;
      this.socket.pause();
    }
  }

  outputWritten(): void {
    this.life.noteWritten();
    this.#noteUnread();
    if (this.unreadBytes > this.lane.bounds.unreadBytesPause / 2) return;
    if (this.#isPaused) {
      this.#isPaused = false;
      this.socket.resume();
    }
    this.sender.resumeHeld();
  }

  #noteUnread(): void {
    const unread = this.sender.output.unread;
    const change = unread - this.#notedUnread;
    if (change === 0) return;
    this.#notedUnread = unread;
    this.lane.noteUnread(change);
  }

  /** Answers the calls whose deadline has come; returns when the next one does. */
  expireCalls(nowUs: number): number {
    let nextUs = Number.POSITIVE_INFINITY;
    if (this.streams.size === 0) return nextUs;
    for (const stream of this.streams.all()) {
      if (!(stream instanceof UnaryStream)) continue;
      if (stream.dueUs <= nowUs) stream.expire();
      else nextUs = Math.min(nextUs, stream.dueUs);
    }
    return nextUs;
  }

  /** Ends the connection for a fault: by the code of a ConnectionError, or as an error of ours. */
  fail(error: unknown): void {
    const { counts, context } = this.lane;
    if (error instanceof ConnectionError) {
      if (error instanceof HeaderListTooLarge) counts.troubles.headers_too_large++;
      else if (!(error instanceof FloodError)) counts.troubles.protocol_error++;
      this.finish(error.code, error.message);
      return;
    }
    context.observer.handlerFailed("HTTP/2 connection", error);
    this.finish(ErrorCode.internalError, "internal error");
  }

  /** Ends the connection for a bound that it passed. */
  cut(trouble: Trouble): void {
    if (this.isClosed) return;
    this.lane.counts.troubles[trouble]++;
    this.destroy();
  }

  /** Says goodbye and ends the connection: no stream is answered any more. */
  finish(code: ErrorCode, debug: string): void {
    if (this.isClosed) return;
    this.sender.goaway(this.streams.lastId, code, debug);
    this.leave();
  }

  /** Ends a connection that has said its goodbye. */
  leave(): void {
    if (this.isClosed) return;
    this.sender.output.flushLast();
    this.#close();
    this.life.noteEnding();
    this.socket.end();
    // What the peer still sends is read and dropped: unread bytes would turn the goodbye into a reset.
    this.socket.resume();
  }

  /** Ends the connection at once. */
  destroy(): void {
    this.#close();
    this.socket.destroy();
  }

  #close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.sender.output.close();
    this.#noteUnread();
    for (const stream of this.streams.all()) {
      this.lane.streams--;
      this.streams.remove(stream);
      stream.abandon(ErrorCode.cancel);
    }
    this.sender.blocked.clear();
    this.#intake.close();
  }

  /** The socket is gone. */
  socketClosed(): void {
    this.#close();
    this.lane.connections.delete(this);
  }
}
