// What a connection's peer sends: bytes to frames, each frame to the part that handles it. Streams are opened here; all
// else that happens to a connection is in connection.ts. other-frames.ts has the frames that most calls do without.

import { ControlFrame, type ControlFrameAllowances } from "./bounds.ts";
import { type Connection, RECEIVE_WINDOW } from "./connection.ts";
import type { UnaryCalls } from "./grpc-call.ts";
import { COMPRESSED, INVALID_TIMEOUT, TAKEN_ENCODING } from "./grpc-headers.ts";
import { areTrailersValid, RequestHead, Route, readHead } from "./header-blocks.ts";
import { HpackDecoder } from "./hpack/decoder.ts";
import type { Http2Server } from "./http2-server.ts";
import { GrpcStatus } from "./methods.ts";
import { ControlFrames, HeaderIntake } from "./other-frames.ts";
import {
  ConnectionError,
  ErrorCode,
  Flag,
  FRAME_BYTES_DEFAULT,
  FRAME_HEAD_BYTES,
  FrameType,
  protocolError,
  WINDOW_DEFAULT,
} from "./protocol.ts";
import type { Sender } from "./sender.ts";
import type { Stream, StreamTable } from "./stream.ts";
import { StreamedCall } from "./streamed-call.ts";
import { TurnedAwayStream } from "./turned-away-stream.ts";

/** A DATA frame with less payload counts as a control frame, unless it ends its stream. */
const WORTHY_DATA_BYTES = 16;
/** Of the flags of HEADERS: those that say whether its payload is a whole block and nothing else. */
const BLOCK_FLAGS = Flag.endHeaders | Flag.padded | Flag.priority;

export class FrameIntake implements FrameSink {
  readonly #connection: Connection;
  readonly #server: Http2Server;
  readonly #calls: UnaryCalls;
  readonly #sender: Sender;
  readonly #streams: StreamTable;
  readonly #allowances: ControlFrameAllowances;
  readonly #reader = new FrameReader(this);
  readonly #control: ControlFrames;
  readonly #blocks: HeaderIntake;
  readonly #decoder: HpackDecoder;
  #receiveWindow = RECEIVE_WINDOW;
  // What of `partialBytes` is of frames and header blocks that have not ended.
  #unfinishedBytes = 0;
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
    this.#control = new ControlFrames(connection);
    this.#blocks = new HeaderIntake(server.bounds, (...block) => this.#takeBlock(...block));
    this.#decoder = new HpackDecoder(server.bounds.headerListBytesMax, server.headerScratch, server.headerValues);
    connection.onClosed = () => this.#drop();
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
      this.#countUnfinished();
    } catch (error) {
      connection.fail(error);
    }
    connection.flush();
  }

  #countUnfinished(): void {
    const more = this.#reader.keptBytes + this.#blocks.keptBytes - this.#unfinishedBytes;
    if (more === 0 || this.#connection.isClosed) return;
    this.#unfinishedBytes += more;
    if (this.#connection.keep(more)) return;
    const text = "too many frames and header blocks that do not end";
    throw new ConnectionError(ErrorCode.enhanceYourCalm, text, "partial_requests");
  }

  // The connection has closed; its socket may stay for seconds.
  #drop(): void {
    this.#reader.drop();
    this.#blocks.drop();
    this.#decoder.table.clear();
    this.#connection.keep(-this.#unfinishedBytes);
    this.#unfinishedBytes = 0;
  }

  takeFrame(type: number, flags: number, streamId: number, bytes: Buffer, start: number, end: number): boolean {
    if (this.#blocks.openStreamId !== 0 && type !== FrameType.continuation) {
      throw protocolError("a frame within a header block");
    }
    if (!this.#control.hasSettings && (type !== FrameType.settings || (flags & Flag.ack) !== 0)) {
      throw protocolError("the first frame is not SETTINGS");
    }
    switch (type) {
      case FrameType.data:
        this.#takeData(flags, streamId, bytes, start, end);
        break;
      case FrameType.headers:
        if ((flags & BLOCK_FLAGS) === Flag.endHeaders)
          this.#takeBlock(streamId, (flags & Flag.endStream) !== 0, bytes, start, end);
        else this.#blocks.takeHeaders(streamId, flags, bytes, start, end);
        break;
      case FrameType.continuation:
        this.#blocks.takeContinuation(streamId, flags, bytes, start, end);
        break;
      case FrameType.windowUpdate:
        this.#control.takeWindowUpdate(streamId, bytes, start, end);
        break;
      case FrameType.rstStream:
        this.#control.takeReset(streamId, end - start);
        break;
      case FrameType.settings:
        this.#control.takeSettings(flags, streamId, bytes, start, end);
        break;
      case FrameType.ping:
        this.#control.takePing(flags, streamId, bytes, start, end);
        break;
      default:
        this.#control.takeOther(type, streamId, bytes, start, end);
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

  #takeBlock(id: number, isEnd: boolean, bytes: Buffer, start: number, end: number): void {
    if (id === 0) throw protocolError("HEADERS on stream 0");
    if (id <= this.#streams.lastId || id % 2 === 0) {
      this.#takeLateHeaders(id, isEnd, bytes, start, end);
      return;
    }
    this.#streams.lastId = id;
    const head = this.#headOf(bytes, start, end);
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

  #headOf(bytes: Buffer, start: number, end: number): RequestHead {
    const server = this.#server;
    const { generation } = this.#decoder.table;
    const known = server.headerMemory.find(bytes, start, end, generation);
    if (known !== undefined) {
      server.counts.headerBlocksRemembered++;
      return known;
    }
    const { head, headerList } = server;
    this.#decode(bytes, start, end);
    readHead(headerList, server.known, head);
    const mayRemember = headerList.isRepeatable && (head.route === Route.unary || head.route === Route.streamed);
    if (mayRemember && server.headerMemory.remember(bytes, start, end, generation, head))
      server.head = new RequestHead();
    return head;
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
    if (isEnd) stream.takeData(NOTHING, 0, 0, true);
  }

  // Undefined if the request was rejected.
  #streamFor(id: number, head: RequestHead, isEnd: boolean): Stream | undefined {
    const connection = this.#connection;
    const { route } = head;
    const { refusal } = connection;
    if (route === Route.notGrpc) return new TurnedAwayStream(connection, id);
    if (refusal === undefined) {
      if (route === Route.unary) return this.#calls.open(connection, id, head);
      if (route === Route.streamed) return new StreamedCall(this.#server, connection, head, id);
      const { observer } = this.#server.options;
      if (route === Route.compressed) observer.unserved("compressed", head.path);
      else if (route === Route.unknownMethod) observer.unserved("unknown_method", head.path);
    }
    this.#allowances.spend(ControlFrame.other);
    const [status, why, encodings] = refusal === undefined ? whyRefused(head) : [GrpcStatus.unauthenticated, refusal];
    this.#sender.headers(id, this.#sender.blocks.failure(status, why, false, encodings), true);
    if (!isEnd) connection.refuse(id, ErrorCode.noError);
    return undefined;
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
    else if (!isEnd || !areTrailersValid(this.#server.headerList))
      this.#connection.reset(stream, ErrorCode.protocolError);
    else if (stream.contentLength >= 0 && stream.contentLength !== stream.received) {
      this.#connection.reset(stream, ErrorCode.protocolError);
    } else {
      stream.isRemoteDone = true;
      stream.takeData(NOTHING, 0, 0, true);
    }
  }

  #decode(bytes: Buffer, start: number, end: number): void {
    this.#server.counts.headerBlocksDecoded++;
    this.#decoder.decode(bytes, start, end, this.#server.headerList);
    const { keptBytes } = this.#decoder.table;
    if (keptBytes !== this.#connection.tableBytes) this.#connection.noteTable(keptBytes);
  }
}

const NOTHING = Buffer.alloc(0);

function whyRefused({ route, path }: RequestHead): [status: GrpcStatus, why: string, encodings?: string] {
  if (route === Route.badTimeout) return [GrpcStatus.internal, INVALID_TIMEOUT];
  if (route === Route.compressed) return [GrpcStatus.unimplemented, COMPRESSED, TAKEN_ENCODING];
  return [GrpcStatus.unimplemented, `The server does not implement the method ${path}`];
}

function faultOfData(stream: Stream, isEnd: boolean): ErrorCode {
  if (stream.isRemoteDone) return ErrorCode.streamClosed;
  if (stream.receiveWindow < 0) return ErrorCode.flowControlError;
  const { contentLength, received } = stream;
  if (contentLength >= 0 && (received > contentLength || (isEnd && received !== contentLength))) {
    return ErrorCode.protocolError;
  }
  return ErrorCode.noError;
}

/** Takes frames, in order. */
interface FrameSink {
  /** The payload is `bytes` from `start` to before `end`, valid until this returns. False stops reading for good. */
  takeFrame(type: number, flags: number, streamId: number, bytes: Buffer, start: number, end: number): boolean;
}

/**
 * Cuts what a socket reads into frames. A frame in one read is not copied; one that is spread over several is put
 * together in a buffer of its own size, however small the pieces are.
 */
export class FrameReader {
  readonly #sink: FrameSink;
  readonly #head = Buffer.allocUnsafe(FRAME_HEAD_BYTES);
  // Bytes of an incomplete frame head.
  #headFilled = 0;
  // The incomplete frame, with its head.
  #frame: Buffer | undefined;
  #frameFilled = 0;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** Bytes that are kept of a frame that has not ended. */
  get keptBytes(): number {
    return this.#frame?.length ?? 0;
  }

  /** Forgets the frame that has not ended. */
  drop(): void {
    this.#frame = undefined;
    this.#headFilled = 0;
  }

  /** True if a frame has begun and not ended. */
  get isWithinFrame(): boolean {
    return this.#headFilled > 0 || this.#frame !== undefined;
  }

  /** Passes on every frame that `chunk`, from `start` on, completes. Throws ConnectionError if a frame is too long. */
  read(chunk: Buffer, start: number): void {
    let at = start;
    if (this.isWithinFrame) {
      at = this.#complete(chunk, at);
      if (at < 0) return;
    }
    const end = chunk.length;
    while (end - at >= FRAME_HEAD_BYTES) {
      const frameEnd = at + FRAME_HEAD_BYTES + lengthAt(chunk, at);
      if (frameEnd > end) {
        this.#begin(chunk, at, frameEnd - at);
        return;
      }
      if (!this.#pass(chunk, at, frameEnd)) return;
      at = frameEnd;
    }
    if (at < end) this.#headFilled = chunk.copy(this.#head, 0, at);
  }

  #begin(chunk: Buffer, at: number, size: number): void {
    // Not from Node's pool: a slice keeps all 8 KB of it, which nothing would count.
    this.#frame = Buffer.allocUnsafeSlow(size);
    this.#frameFilled = chunk.copy(this.#frame, 0, at);
  }

  // Returns where the next frame begins, or -1 if the chunk is used up or the sink has stopped.
  #complete(chunk: Buffer, start: number): number {
    let at = start;
    if (this.#frame === undefined) {
      const taken = chunk.copy(this.#head, this.#headFilled, at);
      this.#headFilled += taken;
      at += taken;
      if (this.#headFilled < FRAME_HEAD_BYTES) return -1;
      this.#headFilled = 0;
      this.#begin(this.#head, 0, FRAME_HEAD_BYTES + lengthAt(this.#head, 0));
    }
    const frame = this.#frame as unknown as Buffer;
    const taken = chunk.copy(frame, this.#frameFilled, at);
    this.#frameFilled += taken;
    at += taken;
    if (this.#frameFilled < frame.length) return -1;
    this.#frame = undefined;
    return this.#pass(frame, 0, frame.length) ? at : -1;
  }

  #pass(bytes: Buffer, at: number, end: number): boolean {
    const streamId =
      (((bytes[at + 5] as number) & 0x7f) << 24) |
      ((bytes[at + 6] as number) << 16) |
      ((bytes[at + 7] as number) << 8) |
      (bytes[at + 8] as number);
    const type = bytes[at + 3] as number;
    return this.#sink.takeFrame(type, bytes[at + 4] as number, streamId, bytes, at + FRAME_HEAD_BYTES, end);
  }
}

function lengthAt(bytes: Buffer, at: number): number {
  const length = ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number);
  if (length > FRAME_BYTES_DEFAULT) {
    throw new ConnectionError(
      ErrorCode.frameSizeError,
      `a frame of ${length} bytes; expected at most ${FRAME_BYTES_DEFAULT}`,
    );
  }
  return length;
}
