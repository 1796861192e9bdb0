// One connection: its streams, when output goes to the socket, and how it ends. frame-intake.ts reads what the peer
// sends, accepted-socket.ts looks for what is overdue.

import type { Socket } from "node:net";
import { ControlFrame, ControlFrameAllowances } from "./bounds.ts";
import type { Http2Server } from "./http2-server.ts";
import { ConnectionError, ErrorCode, Setting, STREAM_ID_LARGEST, type Trouble, WINDOW_DEFAULT } from "./protocol.ts";
import { HeldSince, Output, Sender } from "./sender.ts";
import { type Stream, StreamTable } from "./stream.ts";
import { MICROS_PER_MILLI } from "./time.ts";

/** Bytes of DATA that a peer may have under way on all its streams together (the connection's flow control window). */
export const RECEIVE_WINDOW = 1_048_576;
/**
 * Size of the header table that peers are asked to keep to. With twice as much every fourth call of a traced Envoy
 * would need one field less, and as many connections as are allowed would pass `headerTablesBytesMax`.
 */
const HEADER_TABLE_ASKED = 2_048;
const DRAIN_PING = Buffer.from("draining", "latin1");

/**
 * How far a connection is on its way to its end. `noticed`: the first GOAWAY is sent; `drained`: the second, which
 * names the last stream; `closed`: nothing more is read or sent, except for what was written before.
 */
type State = "open" | "noticed" | "drained" | "closed";

export class Connection {
  readonly server: Http2Server;
  readonly socket: Socket;
  /** Why no call of this peer is served; undefined if calls are served. */
  readonly refusal: string | undefined;
  readonly sender: Sender;
  readonly streams = new StreamTable();
  readonly allowances: ControlFrameAllowances;
  /** This connection's share of `Http2Server.partialBytes`, and since when it has had one. */
  partialBytes = 0;
  partialSinceUs = 0;
  /** This connection's share of `Http2Server.tableBytes`. */
  tableBytes = 0;
  /** When something was read last. */
  readUs = 0;
  /** Called when the connection closes. */
  onClosed: (() => void) | undefined;
  state: State = "open";
  /** When it left the state `open`, and when it closed. */
  noticedUs = Number.POSITIVE_INFINITY;
  closedUs = Number.POSITIVE_INFINITY;
  /** How long its calls may take after that. */
  graceUs = Number.POSITIVE_INFINITY;
  /**
   * Something was read, or written, since this was last set to false; and when our PING was sent that has no answer
   * yet.
   */
  hasRead = true;
  hasWritten = true;
  pingedUs = Number.POSITIVE_INFINITY;
  #lastStreamId = STREAM_ID_LARGEST;
  readonly #unread = new HeldSince();
  // Output of a read goes out at its end; other output when the code that runs now has ended.
  #flushing: "idle" | "reading" | "due" = "idle";
  #isPaused = false;
  readonly #flush = () => this.flush();

  constructor(server: Http2Server, socket: Socket, refusal: string | undefined) {
    this.server = server;
    this.refusal = refusal;
    this.socket = socket;
    const { bounds, options } = server;
    this.sender = new Sender(new Output(socket, server.chunks, () => this.#outputWritten()), bounds.unreadBytesPause);
    this.allowances = new ControlFrameAllowances();
    server.connections.add(this);
    server.counts.connections++;
    this.sender.settings([
      [Setting.headerTableSize, HEADER_TABLE_ASKED],
      [Setting.maxConcurrentStreams, options.maxConcurrentStreams],
      [Setting.maxHeaderListSize, bounds.headerListBytesMax],
    ]);
    this.sender.windowUpdate(0, RECEIVE_WINDOW - WINDOW_DEFAULT);
  }

  get isClosed(): boolean {
    return this.state === "closed";
  }

  get unreadBytes(): number {
    return this.sender.output.unread;
  }

  /** All output that was written before this time has been read. */
  get unreadSinceUs(): number {
    return this.#unread.sinceUs;
  }

  /** Begins a read of the socket, which `flush` ends. The bytes of one read belong to one turn. */
  beginRead(): void {
    this.server.beginTurn();
    this.readUs = this.server.turnNowUs();
    this.hasRead = true;
    this.#flushing = "reading";
  }

  /** Adds to what is kept of requests. False if it is more than all connections may keep, and this one is why. */
  keep(bytes: number): boolean {
    if (this.partialBytes === 0) this.partialSinceUs = this.server.turnNowUs();
    this.partialBytes += bytes;
    return this.server.notePartial(this, bytes);
  }

  /** Notes what the table of the peer's header fields keeps now. */
  noteTable(bytes: number): void {
    const more = bytes - this.tableBytes;
    this.tableBytes = bytes;
    this.server.noteTable(this, more);
  }

  /**
   * Sends the whole answer of a good call at once, and closes its stream. False if a window is too small: then nothing
   * was sent.
   */
  answer(stream: Stream, message: Uint8Array): boolean {
    if (!this.sender.answerAtOnce(stream, message)) return false;
    this.#finish(stream);
    this.flushSoon();
    return true;
  }

  /** Sends what waits on a stream as far as the peer allows, and closes the stream after its end. */
  send(stream: Stream): void {
    if (this.isClosed) return;
    if (this.sender.send(stream)) this.#finish(stream);
    else stream.afterSending();
    this.flushSoon();
  }

  // Later frames of the peer on this stream are ignored.
  #finish(stream: Stream): void {
    this.remove(stream);
    if (stream.isRemoteDone) this.allowances.noteCall();
    else this.refuse(stream.id, ErrorCode.noError);
    stream.closed();
  }

  /** Ends a stream by RST_STREAM. */
  reset(stream: Stream, code: ErrorCode): void {
    this.remove(stream);
    stream.closed();
    this.refuse(stream.id, code);
    this.flushSoon();
  }

  /**
   * Sends RST_STREAM; all of them are sent here. The peer has caused each of them, and this process may have worked for
   * it, so each counts as a reset by the peer. The connection may be closed when this returns.
   */
  refuse(id: number, code: ErrorCode): void {
    this.streams.noteReset(id);
    this.sender.rstStream(id, code);
    const flood = this.allowances.overdraw(
      code === ErrorCode.refusedStream ? ControlFrame.refused : ControlFrame.reset,
    );
    if (flood !== undefined) this.fail(flood);
  }

  /** Forgets a stream that has ended. */
  remove(stream: Stream): void {
    this.server.streams--;
    this.streams.remove(stream);
    if (this.sender.blocked.size > 0) this.sender.release(stream);
    if (this.state === "drained") this.#leaveIfQuiet();
  }

  /** Returns `bytes`, which were consumed, to the stream's receive window. */
  credit(stream: Stream, bytes: number): void {
    stream.consumed += bytes;
    if (stream.consumed < WINDOW_DEFAULT / 2 || stream.isRemoteDone) return;
    this.sender.windowUpdate(stream.id, stream.consumed);
    stream.receiveWindow += stream.consumed;
    stream.consumed = 0;
    this.flushSoon();
  }

  /** Continues with the streams that wait for the connection, one after another, while its window is open. */
  resumeHeld(): void {
    const { sender } = this;
    let left = sender.held.size;
    for (const stream of sender.held) {
      if (left-- === 0 || sender.window <= 0) return;
      sender.release(stream);
      this.send(stream);
    }
  }

  /** Continues with every stream that waits, because the peer's settings have changed the windows of all. */
  resumeAll(): void {
    for (const stream of [...this.sender.blocked]) {
      this.sender.release(stream);
      this.send(stream);
    }
  }

  /** Has output sent after the code that runs now. */
  flushSoon(): void {
    if (this.#flushing !== "idle") return;
    this.#flushing = "due";
    process.nextTick(this.#flush);
  }

  flush(): void {
    this.#flushing = "idle";
    const { output } = this.sender;
    output.flush();
    this.#noteUnread();
    if (!this.sender.isFull || this.isClosed) return;
    if (output.unread > this.server.bounds.unreadBytesMax) this.cut("unread_output");
    else if (!this.#isPaused) {
      this.#isPaused = true;
      this.socket.pause();
    }
  }

  #outputWritten(): void {
    this.hasWritten = true;
    this.#noteUnread();
    if (this.unreadBytes > this.server.bounds.unreadBytesPause / 2) return;
    if (this.#isPaused) {
      this.#isPaused = false;
      this.socket.resume();
    }
    this.resumeHeld();
  }

  #noteUnread(): void {
    const change = this.unreadBytes - this.#unread.bytes;
    if (change === 0) return;
    this.#unread.set(this.unreadBytes, this.server.turnNowUs());
    this.server.noteUnread(change);
  }

  shed(share: number): void {
    if (this.streams.size <= share) return;
    const waiting = this.streams.all().filter((stream) => stream.waitsForPeer);
    for (const stream of waiting.slice(0, Math.max(0, waiting.length - share))) {
      if (this.isClosed) return;
      this.server.counts.troubles.waiting_streams++;
      // A client may send a refused call again, so only one that no handler has seen is refused.
      this.reset(stream, stream.isRemoteDone ? ErrorCode.enhanceYourCalm : ErrorCode.refusedStream);
    }
  }

  /** True for a stream opened after the last one that our final GOAWAY allows. */
  isClosedTo(id: number): boolean {
    return id > this.#lastStreamId;
  }

  /**
   * Asks the peer to go. The first GOAWAY asks for no more streams. When everything that the peer sent before has been
   * read, the second names the last stream that is served. The connection ends with its last stream, or after `graceMs`
   * milliseconds.
   */
  drain(graceMs: number): void {
    if (this.isClosed) return;
    const graceUs = graceMs * MICROS_PER_MILLI;
    if (this.state !== "open") {
      // It drains already, because of its age; only the end may come sooner now.
      this.graceUs = Math.min(this.graceUs, this.server.nowUs() - this.noticedUs + graceUs);
      return;
    }
    this.state = "noticed";
    this.noticedUs = this.server.nowUs();
    this.graceUs = graceUs;
    this.sender.goaway(STREAM_ID_LARGEST, ErrorCode.noError);
    this.sender.ping(DRAIN_PING, false);
    this.flushSoon();
  }

  takePong(payload: Buffer): void {
    this.pingedUs = Number.POSITIVE_INFINITY;
    if (payload.equals(DRAIN_PING)) this.drained();
  }

  /** Notes that what the peer sent before our first GOAWAY has been read, or is not waited for any more. */
  drained(): void {
    if (this.state !== "noticed") return;
    this.state = "drained";
    this.#lastStreamId = this.streams.lastId;
    this.sender.goaway(this.streams.lastId, ErrorCode.noError);
    this.flushSoon();
    this.#leaveIfQuiet();
  }

  // Not at once: the caller of this may still have to write the end of the stream.
  #leaveIfQuiet(): void {
    if (this.streams.size > 0) return;
    process.nextTick(() => {
      if (this.streams.size === 0) this.#leave();
    });
  }

  /** Ends the connection for an error: with the code of a ConnectionError, or else as an internal error. */
  fail(error: unknown): void {
    const { counts, options } = this.server;
    if (error instanceof ConnectionError) {
      counts.troubles[error.trouble]++;
      this.finish(error.code, error.message);
      return;
    }
    options.observer.handlerFailed("HTTP/2 connection", error);
    this.finish(ErrorCode.internalError, "internal error");
  }

  /** Ends the connection because of a bound, without GOAWAY, and counts it. */
  cut(trouble: Trouble): void {
    if (this.isClosed) return;
    this.server.counts.troubles[trouble]++;
    this.#close();
    this.socket.destroy();
  }

  /** Ends the connection because of a bound, with a GOAWAY after which clients connect again, and counts it. */
  dismiss(trouble: Trouble): void {
    if (this.isClosed) return;
    this.server.counts.troubles[trouble]++;
    this.finish(ErrorCode.noError, trouble);
  }

  /** Sends GOAWAY and ends the connection; no stream is answered any more. */
  finish(code: ErrorCode, debug: string): void {
    if (this.isClosed) return;
    this.sender.goaway(this.streams.lastId, code, debug);
    this.#leave();
  }

  #leave(): void {
    if (this.isClosed) return;
    this.sender.output.flushLast();
    this.#close();
    this.socket.end();
    // What the peer still sends is read and dropped: unread bytes would turn our close into a TCP reset.
    this.socket.resume();
  }

  #close(): void {
    if (this.isClosed) return;
    this.state = "closed";
    this.closedUs = this.server.nowUs();
    this.sender.output.close();
    this.#noteUnread();
    this.server.turns.leave(this);
    for (const stream of this.streams.all()) {
      this.remove(stream);
      stream.closed();
    }
    this.onClosed?.();
    this.noteTable(0);
  }

  /** Notes that the socket has closed. */
  socketClosed(): void {
    this.#close();
    this.server.connections.delete(this);
  }
}
