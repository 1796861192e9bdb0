// What a connection's peer sends: bytes to frames, and each frame to the part that handles it. Streams are opened here; everything else
// that happens to a connection is in connection.ts.

import { GrpcStatus } from "../../unary.ts";
import { COMPRESSED, INVALID_TIMEOUT, TAKEN_ENCODING } from "../grpc-headers.ts";
import { ControlFrame, type ControlFrameAllowances } from "./bounds.ts";
import { type Connection, RECEIVE_WINDOW } from "./connection.ts";
import { FrameReader, type FrameSink, HeaderIntake } from "./frames.ts";
import type { UnaryCalls } from "./grpc-call.ts";
import { areTrailersValid, HeaderMemory, RequestHead, Route, readHead } from "./header-blocks.ts";
import { HpackDecoder } from "./hpack/decoder.ts";
import { HeaderList } from "./hpack/header-list.ts";
import type { Http2Server } from "./http2-server.ts";
import {
  ConnectionError,
  ErrorCode,
  Flag,
  FRAME_BYTES_DEFAULT,
  FRAME_BYTES_LARGEST,
  FrameType,
  PING_BYTES,
  PRIORITY_BYTES,
  protocolError,
  requireSize,
  requireWindow,
  SETTING_BYTES,
  Setting,
  WINDOW_DEFAULT,
  WINDOW_LARGEST,
  WORD_BYTES,
} from "./protocol.ts";
import type { Sender } from "./sender.ts";
import type { Stream, StreamTable } from "./stream.ts";
import { StreamedCall } from "./streamed-call.ts";
import { TurnedAwayStream } from "./turned-away-stream.ts";

/** A DATA frame with less payload counts as a control frame, unless it ends its stream. */
const WORTHY_DATA_BYTES = 16;
/** Longer SETTINGS count as several frames; no peer needs more than a dozen settings. */
const SETTINGS_BYTES_PER_CONTROL_FRAME = 16 * SETTING_BYTES;

export class FrameIntake implements FrameSink {
  readonly #connection: Connection;
  readonly #server: Http2Server;
  readonly #calls: UnaryCalls;
  readonly #sender: Sender;
  readonly #streams: StreamTable;
  readonly #allowances: ControlFrameAllowances;
  readonly #reader = new FrameReader(this);
  readonly #blocks: HeaderIntake;
  readonly #decoder: HpackDecoder;
  readonly #list = new HeaderList();
  readonly #memory = new HeaderMemory();
  #head = new RequestHead();
  #receiveWindow = RECEIVE_WINDOW;
  #hasSettings = false;
  /** Number of complete frames and header blocks. */
  pieces = 0;
  /** Takes what the socket reads after the preface. */
  readonly onData = (chunk: Buffer): void => this.read(chunk, 0);

  constructor(connection: Connection, calls: UnaryCalls) {
    const { server } = connection;
    this.#connection = connection;
    this.#server = server;
    this.#calls = calls;
    this.#sender = connection.sender;
    this.#streams = connection.streams;
    this.#allowances = connection.allowances;
    this.#blocks = new HeaderIntake(server.bounds, server.counts);
    this.#decoder = new HpackDecoder({ listBytesMax: server.bounds.headerListBytesMax }, server.headerScratch);
  }

  /** True if a frame or a header block has begun and not ended. */
  get isWithinFrame(): boolean {
    return this.#reader.isWithinFrame || this.#blocks.openStreamId !== 0;
  }

  /** Takes what the socket has read, from `start` on. */
  read(chunk: Buffer, start: number): void {
    const connection = this.#connection;
    if (connection.isClosed) return;
    connection.beginRead();
    try {
      this.#reader.read(chunk, start);
    } catch (error) {
      connection.fail(error);
    }
    connection.flush();
  }

  takeFrame(type: number, flags: number, streamId: number, bytes: Buffer, start: number, end: number): boolean {
    if (this.#blocks.openStreamId !== 0 && type !== FrameType.continuation) {
      throw protocolError("a frame within a header block");
    }
    if (!this.#hasSettings && (type !== FrameType.settings || (flags & Flag.ack) !== 0)) {
      throw protocolError("the first frame is not SETTINGS");
    }
    switch (type) {
      case FrameType.data:
        this.#takeData(flags, streamId, bytes, start, end);
        break;
      case FrameType.headers:
        if (this.#blocks.takeHeaders(streamId, flags, bytes, start, end)) this.#takeBlock(streamId);
        break;
      case FrameType.continuation:
        if (this.#blocks.takeContinuation(streamId, flags, bytes, start, end)) this.#takeBlock(streamId);
        break;
      case FrameType.windowUpdate:
        this.#takeWindowUpdate(streamId, bytes, start, end);
        break;
      case FrameType.rstStream:
        this.#takeReset(streamId, end - start);
        break;
      case FrameType.settings:
        this.#takeSettings(flags, streamId, bytes, start, end);
        break;
      case FrameType.ping:
        this.#takePing(flags, streamId, bytes, start, end);
        break;
      default:
        this.#takeOther(type, streamId, bytes, start, end);
    }
    if (this.#blocks.openStreamId === 0) this.pieces++;
    return !this.#connection.isClosed;
  }

  #takeData(flags: number, id: number, bytes: Buffer, frameStart: number, frameEnd: number): void {
    if (id === 0) throw protocolError("DATA on stream 0");
    const size = frameEnd - frameStart;
    let start = frameStart;
    let end = frameEnd;
    if (flags & Flag.padded) {
      end -= bytes[start++] as number;
      if (size === 0 || end < start) throw protocolError("more padding than payload");
    }
    this.#receiveWindow -= size;
    if (this.#receiveWindow < 0)
      throw new ConnectionError(ErrorCode.flowControlError, "more DATA than the window allows");
    if (this.#receiveWindow < RECEIVE_WINDOW / 2) {
      this.#sender.windowUpdate(0, RECEIVE_WINDOW - this.#receiveWindow);
      this.#receiveWindow = RECEIVE_WINDOW;
    }
    const isEnd = (flags & Flag.endStream) !== 0;
    // Padding does not count: no frame is sent for it.
    if (end - start < WORTHY_DATA_BYTES && !isEnd) this.#allowances.spend(ControlFrame.other);
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      this.#streams.requireOpened(id);
      this.#allowances.spend(ControlFrame.other);
      if (!this.#streams.wasReset(id)) this.#connection.refuse(id, ErrorCode.streamClosed);
      return;
    }
    stream.receiveWindow -= size;
    stream.received += end - start;
    const fault = faultOfData(stream, isEnd);
    if (fault !== ErrorCode.noError) {
      this.#connection.reset(stream, fault);
      return;
    }
    if (isEnd) stream.isRemoteDone = true;
    else if (size > end - start) this.#connection.credit(stream, size - (end - start));
    stream.takeData(bytes, start, end, isEnd);
  }

  #takeBlock(id: number): void {
    const { bytes, start, end, isEnd } = this.#blocks;
    // An idle connection must not keep what it read last.
    this.#blocks.bytes = NOTHING;
    if (id <= this.#streams.lastId || id % 2 === 0) {
      this.#takeLateHeaders(id, isEnd, bytes, start, end);
      return;
    }
    this.#streams.lastId = id;
    const { generation } = this.#decoder.table;
    let head = this.#memory.find(bytes, start, end, generation);
    if (head !== undefined) this.#server.counts.headerBlocksRemembered++;
    else {
      head = this.#head;
      this.#decode(bytes, start, end);
      readHead(this.#list, this.#server.known, head);
      const mayRemember = this.#list.isRepeatable && head.route === Route.unary;
      if (mayRemember && this.#memory.remember(bytes, start, end, generation, head)) this.#head = new RequestHead();
    }
    if (this.#connection.isClosedTo(id)) this.#streams.noteReset(id);
    else if (head.route === Route.malformed || (isEnd && head.contentLength > 0)) {
      this.#connection.refuse(id, ErrorCode.protocolError);
    } else if (this.#streams.size >= this.#server.options.maxConcurrentStreams) {
      this.#connection.refuse(id, ErrorCode.refusedStream);
    } else {
      this.#open(id, head, isEnd);
      this.#server.shedIfCrowded();
    }
  }

  #open(id: number, head: RequestHead, isEnd: boolean): void {
    const stream = this.#streamFor(id, head, isEnd);
    if (stream === undefined) return;
    stream.contentLength = head.contentLength;
    stream.sendWindow = this.#sender.streamWindow;
    stream.receiveWindow = WINDOW_DEFAULT;
    stream.isRemoteDone = isEnd;
    this.#server.streams++;
    this.#streams.add(stream);
    // A handler of many requests is called before the first one.
    if (isEnd || head.route === Route.streamed) stream.takeData(NOTHING, 0, 0, isEnd);
  }

  // Undefined if the request has been turned away.
  #streamFor(id: number, head: RequestHead, isEnd: boolean): Stream | undefined {
    const connection = this.#connection;
    const { route } = head;
    if (route === Route.notGrpc) return new TurnedAwayStream(connection, id);
    if (connection.refusal === undefined) {
      if (route === Route.unary) return this.#calls.open(connection, id, head);
      if (route === Route.streamed) return new StreamedCall(this.#server, connection, head, id);
    }
    if (connection.refusal !== undefined) this.#turnAway(id, GrpcStatus.unauthenticated, connection.refusal, isEnd);
    else if (route === Route.badTimeout) this.#turnAway(id, GrpcStatus.internal, INVALID_TIMEOUT, isEnd);
    else if (route === Route.compressed)
      this.#turnAway(id, GrpcStatus.unimplemented, COMPRESSED, isEnd, TAKEN_ENCODING);
    else this.#turnAway(id, GrpcStatus.unimplemented, `The server does not implement the method ${head.path}`, isEnd);
    return undefined;
  }

  #turnAway(id: number, status: GrpcStatus, why: string, isEnd: boolean, encodings = ""): void {
    this.#allowances.spend(ControlFrame.other);
    this.#sender.headers(id, this.#sender.blocks.failure(status, why, false, encodings), true);
    if (!isEnd) this.#connection.refuse(id, ErrorCode.noError);
  }

  // Trailers, or an error. They are decoded in any case, because they may change the header table.
  #takeLateHeaders(id: number, isEnd: boolean, bytes: Buffer, start: number, end: number): void {
    this.#decode(bytes, start, end);
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      this.#allowances.spend(ControlFrame.other);
      if (this.#streams.wasReset(id)) return;
      const code = id % 2 === 0 ? ErrorCode.protocolError : ErrorCode.streamClosed;
      throw new ConnectionError(code, "HEADERS on a stream that is closed, or not the client's to open");
    }
    if (stream.isRemoteDone) this.#connection.reset(stream, ErrorCode.streamClosed);
    else if (!isEnd || !areTrailersValid(this.#list)) this.#connection.reset(stream, ErrorCode.protocolError);
    else if (stream.contentLength >= 0 && stream.contentLength !== stream.received) {
      this.#connection.reset(stream, ErrorCode.protocolError);
    } else {
      stream.isRemoteDone = true;
      stream.takeData(NOTHING, 0, 0, true);
    }
  }

  #decode(bytes: Buffer, start: number, end: number): void {
    this.#server.counts.headerBlocksDecoded++;
    this.#decoder.decode(bytes, start, end, this.#list);
  }

  #takeWindowUpdate(id: number, bytes: Buffer, start: number, end: number): void {
    requireSize("WINDOW_UPDATE", end - start, WORD_BYTES);
    this.#allowances.spend(ControlFrame.other);
    const more = bytes.readUInt32BE(start) & 0x7fff_ffff;
    if (id === 0) {
      if (more === 0) throw protocolError("a WINDOW_UPDATE of nothing");
      this.#sender.window += more;
      requireWindow(this.#sender.window);
      this.#connection.resumeHeld();
      return;
    }
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      this.#streams.requireOpened(id);
      if (more === 0) this.#connection.refuse(id, ErrorCode.protocolError);
    } else if (more === 0) this.#connection.reset(stream, ErrorCode.protocolError);
    else if (stream.sendWindow + more > WINDOW_LARGEST) this.#connection.reset(stream, ErrorCode.flowControlError);
    else {
      stream.sendWindow += more;
      if (this.#sender.release(stream)) this.#connection.send(stream);
    }
  }

  #takeReset(id: number, size: number): void {
    requireSize("RST_STREAM", size, WORD_BYTES);
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      this.#streams.requireOpened(id);
      this.#allowances.spend(ControlFrame.other);
      return;
    }
    this.#allowances.spend(ControlFrame.reset);
    this.#connection.remove(stream);
    stream.closed();
  }

  #takeSettings(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id !== 0) throw protocolError("SETTINGS on a stream");
    // Each change of the window visits every stream, and one frame has room for thousands of settings.
    for (let at = start; at === start || at < end; at += SETTINGS_BYTES_PER_CONTROL_FRAME)
      this.#allowances.spend(ControlFrame.settings);
    if (flags & Flag.ack) {
      requireSize("SETTINGS acknowledgement", end - start, 0);
      return;
    }
    if ((end - start) % SETTING_BYTES !== 0)
      throw new ConnectionError(ErrorCode.frameSizeError, "SETTINGS that are not pairs of six bytes");
    this.#hasSettings = true;
    for (let at = start; at < end; at += SETTING_BYTES) this.#apply(bytes.readUInt16BE(at), bytes.readUInt32BE(at + 2));
    this.#sender.acknowledgeSettings();
    this.#connection.resumeAll();
  }

  // MAX_FRAME_SIZE is not used, because answers are small.
  #apply(id: number, value: number): void {
    if (id === Setting.headerTableSize) this.#sender.blocks.encoder.allowTableSize(value);
    else if (id === Setting.initialWindowSize) this.#setStreamWindow(value);
    else if (id === Setting.enablePush && value > 1) throw protocolError("ENABLE_PUSH is neither 0 nor 1");
    else if (id === Setting.maxFrameSize && (value < FRAME_BYTES_DEFAULT || value > FRAME_BYTES_LARGEST))
      throw protocolError("a MAX_FRAME_SIZE out of bounds");
  }

  #setStreamWindow(bytes: number): void {
    requireWindow(bytes);
    const change = bytes - this.#sender.streamWindow;
    this.#sender.streamWindow = bytes;
    for (const stream of this.#streams.all()) {
      stream.sendWindow += change;
      requireWindow(stream.sendWindow);
    }
  }

  #takePing(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id !== 0) throw protocolError("PING on a stream");
    requireSize("PING", end - start, PING_BYTES);
    this.#allowances.spend(ControlFrame.ping);
    const payload = bytes.subarray(start, end);
    if (flags & Flag.ack) this.#connection.takePong(payload);
    else this.#sender.ping(payload, true);
  }

  // PRIORITY is obsolete, a client's GOAWAY changes nothing for us, and unknown frames are ignored.
  #takeOther(type: number, id: number, bytes: Buffer, start: number, end: number): void {
    this.#allowances.spend(ControlFrame.other);
    if (type === FrameType.pushPromise) throw protocolError("a client that pushes");
    if (type === FrameType.goaway && id !== 0) throw protocolError("GOAWAY on a stream");
    if (type !== FrameType.priority) return;
    if (id === 0) throw protocolError("PRIORITY on stream 0");
    requireSize("PRIORITY", end - start, PRIORITY_BYTES);
    if ((bytes.readUInt32BE(start) & 0x7fff_ffff) === id) throw protocolError("a stream that depends on itself");
  }
}

const NOTHING = Buffer.alloc(0);

function faultOfData(stream: Stream, isEnd: boolean): ErrorCode {
  if (stream.isRemoteDone) return ErrorCode.streamClosed;
  if (stream.receiveWindow < 0) return ErrorCode.flowControlError;
  const { contentLength, received } = stream;
  if (contentLength >= 0 && (received > contentLength || (isEnd && received !== contentLength))) {
    return ErrorCode.protocolError;
  }
  return ErrorCode.noError;
}
