// One connection after its preface: its streams, when output goes to the socket, and how it ends. frame-intake.ts reads frames;
// connection-lifecycle.ts has age, keepalive and drain. What those ask of the connection are interfaces in their own files: StreamOwner,
// CallOwner, IntakeOwner, LifecycleOwner, LaneConnection.

import type { Socket } from "node:net";
import type { GrpcStatus } from "../../unary.ts";
import type { Trouble } from "./bounds.ts";
import { ConnectionLifecycle, type LifecycleOwner } from "./connection-lifecycle.ts";
import { ControlFrame, ControlFrameAllowances, FloodError } from "./control-frame-allowances.ts";
import { FrameIntake, type IntakeOwner, RECEIVE_WINDOW } from "./frame-intake.ts";
import { FrameReader } from "./frame-reader.ts";
import { HeaderListTooLarge } from "./hpack/decoder.ts";
import type { Lane, LaneConnection } from "./lane.ts";
import { Output, type OutputOwner } from "./output.ts";
import { ConnectionError, ErrorCode, Setting, WINDOW_DEFAULT } from "./protocol.ts";
import { Sender } from "./sender.ts";
import type { Stream } from "./stream.ts";
import { StreamTable } from "./stream-table.ts";
import type { UnaryStream } from "./unary-stream.ts";

/** Made by the listener, which passes it what the socket reads. */
export class Connection implements IntakeOwner, LaneConnection, LifecycleOwner, OutputOwner {
  readonly lane: Lane;
  readonly socket: Socket;
  readonly refusal: string | undefined;
  readonly sender: Sender;
  readonly streams = new StreamTable();
  readonly allowances: ControlFrameAllowances;
  readonly life: ConnectionLifecycle;
  partialBytes = 0;
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
    this.allowances = new ControlFrameAllowances(lane.counts);
    this.life = new ConnectionLifecycle(this);
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

  get unreadBytes(): number {
    return this.sender.output.unread;
  }

  get isFull(): boolean {
    return this.unreadBytes > this.lane.bounds.unreadBytesPause;
  }

  get isWithinFrame(): boolean {
    return this.#reader.isWithinFrame || this.#intake.isWithinBlock;
  }

  get piecesRead(): number {
    return this.#intake.pieces;
  }

  /** Takes what the socket has read, from `start` on. The bytes of one read belong to one turn, and answers go out at its end. */
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

  answer(stream: UnaryStream, message: Uint8Array): void {
    if (this.sender.answer(stream, message)) this.#finish(stream);
    this.flushSoon();
  }

  answerRest(stream: UnaryStream, answer: Buffer, sent: number): void {
    if (this.sender.answerRest(stream, answer, sent)) this.#finish(stream);
    this.flushSoon();
  }

  answerFailure(stream: UnaryStream, status: GrpcStatus, message: string): void {
    this.sender.headers(stream.id, this.sender.blocks.trailersOnly(status, message), true);
    this.#finish(stream);
    this.flushSoon();
  }

  #finish(stream: UnaryStream): void {
    this.end(stream);
    stream.closed();
  }

  end(stream: Stream): void {
    this.remove(stream);
    if (stream.isRemoteDone) this.allowances.noteCall();
    else this.refuse(stream.id, ErrorCode.noError);
  }

  reset(stream: Stream, code: ErrorCode): void {
    this.remove(stream);
    stream.abandon(code);
    this.refuse(stream.id, code);
    this.flushSoon();
  }

  // All RST_STREAMs are sent here. The peer has caused each of them, and this process may have worked for it, so each counts as a reset by
  // the peer. The connection may be closed when this returns.
  refuse(id: number, code: ErrorCode): void {
    this.streams.noteReset(id);
    this.sender.rstStream(id, code);
    const flood = this.allowances.overdraw(
      code === ErrorCode.refusedStream ? ControlFrame.refused : ControlFrame.reset,
    );
    if (flood !== undefined) this.fail(flood);
  }

  remove(stream: Stream): void {
    this.lane.streams--;
    this.streams.remove(stream);
    if (this.sender.blocked.size > 0) this.sender.release(stream);
    if (this.streams.size === 0) this.life.noteQuiet();
  }

  credit(stream: Stream, bytes: number): void {
    stream.consumed += bytes;
    if (stream.consumed < WINDOW_DEFAULT / 2 || stream.isRemoteDone) return;
    this.sender.windowUpdate(stream.id, stream.consumed);
    stream.receiveWindow += stream.consumed;
    stream.consumed = 0;
    this.flushSoon();
  }

  flushSoon(): void {
    if (this.#isReading || this.#willFlush) return;
    this.#willFlush = true;
    this.lane.flushSoon(this);
  }

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

  expireCalls(nowUs: number): number {
    let nextUs = Number.POSITIVE_INFINITY;
    if (this.streams.size === 0) return nextUs;
    for (const stream of this.streams.all()) nextUs = Math.min(nextUs, stream.expire(nowUs));
    return nextUs;
  }

  look(nowUs: number, seconds: number): void {
    this.allowances.refill(seconds);
    this.life.look(nowUs);
  }

  shed(share: number): void {
    if (this.streams.size <= share) return;
    const waiting = this.streams.all().filter((stream) => stream.waitsForPeer);
    for (let i = 0; i < waiting.length - share && !this.isClosed; i++) {
      const stream = waiting[i] as Stream;
      this.lane.counts.troubles.waiting_streams++;
      // A client may send a refused call again, so only one that no handler has seen is refused.
      this.reset(stream, stream.isRemoteDone ? ErrorCode.enhanceYourCalm : ErrorCode.refusedStream);
    }
  }

  drain(graceMs: number): void {
    this.life.drain(graceMs);
  }

  /** Ends the connection for an error: with the code of a ConnectionError, or else as an internal error. */
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

  cut(trouble: Trouble): void {
    if (this.isClosed) return;
    this.lane.counts.troubles[trouble]++;
    this.destroy();
  }

  finish(code: ErrorCode, debug: string): void {
    if (this.isClosed) return;
    this.sender.goaway(this.streams.lastId, code, debug);
    this.leave();
  }

  leave(): void {
    if (this.isClosed) return;
    this.sender.output.flushLast();
    this.#close();
    this.life.noteEnding();
    this.socket.end();
    // What the peer still sends is read and dropped: unread bytes would turn our close into a TCP reset.
    this.socket.resume();
  }

  /** Ends the connection at once, without GOAWAY. */
  destroy(): void {
    this.#close();
    this.socket.destroy();
  }

  #close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.sender.output.close();
    this.#noteUnread();
    this.lane.turns.leave(this);
    for (const stream of this.streams.all()) {
      this.lane.streams--;
      this.streams.remove(stream);
      stream.abandon(ErrorCode.cancel);
    }
    this.sender.blocked.clear();
  }

  /** Notes that the socket has closed. */
  socketClosed(): void {
    this.#close();
    this.lane.connections.delete(this);
  }
}
