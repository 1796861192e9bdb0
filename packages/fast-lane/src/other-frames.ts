// Frames that most calls do without: header blocks in pieces, and all that is about a connection or ends a stream.

import { type Bounds, ControlFrame, type ControlFrameAllowances } from "./bounds.ts";
import type { Connection } from "./connection.ts";
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
  WINDOW_LARGEST,
  WORD_BYTES,
} from "./protocol.ts";
import type { Sender } from "./sender.ts";
import type { StreamTable } from "./stream.ts";

/** Longer SETTINGS count as several frames; no peer needs more than a dozen settings. */
const SETTINGS_BYTES_PER_CONTROL_FRAME = 16 * SETTING_BYTES;

/** Applies a peer's control frames to its connection. */
export class ControlFrames {
  readonly #connection: Connection;
  readonly #sender: Sender;
  readonly #streams: StreamTable;
  readonly #allowances: ControlFrameAllowances;
  /** True once the peer has sent its settings. */
  hasSettings = false;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#sender = connection.sender;
    this.#streams = connection.streams;
    this.#allowances = connection.allowances;
  }

  takeWindowUpdate(id: number, bytes: Buffer, start: number, end: number): void {
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

  takeReset(id: number, size: number): void {
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

  takeSettings(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
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
    this.hasSettings = true;
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

  takePing(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id !== 0) throw protocolError("PING on a stream");
    requireSize("PING", end - start, PING_BYTES);
    this.#allowances.spend(ControlFrame.ping);
    const payload = bytes.subarray(start, end);
    if (flags & Flag.ack) this.#connection.takePong(payload);
    else this.#sender.ping(payload, true);
  }

  // PRIORITY is obsolete, a client's GOAWAY changes nothing for us, and unknown frames are ignored.
  takeOther(type: number, id: number, bytes: Buffer, start: number, end: number): void {
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

/**
 * Takes a whole block: `bytes` from `start` to `end` (exclusive), valid until this returns, and whether it ends its
 * stream.
 */
type BlockSink = (streamId: number, isEnd: boolean, bytes: Buffer, start: number, end: number) => void;

/** Puts header blocks together from HEADERS and CONTINUATION frames, without padding and priority. */
export class HeaderIntake {
  readonly #bounds: Bounds;
  readonly #takeBlock: BlockSink;
  /** The stream whose block has begun and not ended; 0 if none. No other frame may come before its end. */
  openStreamId = 0;
  // The block that is put together, and whether it ends its stream.
  #block: Buffer = NOTHING;
  #isEnd = false;
  #filled = 0;
  #frames = 0;

  constructor(bounds: Bounds, takeBlock: BlockSink) {
    this.#bounds = bounds;
    this.#takeBlock = takeBlock;
  }

  /** Bytes that are kept of a block that has not ended. */
  get keptBytes(): number {
    return this.#block.length;
  }

  /** Forgets the block that has not ended. */
  drop(): void {
    this.#block = NOTHING;
  }

  /** Takes the payload of a HEADERS frame. */
  takeHeaders(streamId: number, flags: number, bytes: Buffer, from: number, to: number): void {
    if (streamId === 0) throw protocolError("HEADERS on stream 0");
    let start = from;
    let end = to;
    if (flags & Flag.padded) {
      end -= bytes[start++] as number;
      if (from === to || end < start) throw protocolError("more padding than payload");
    }
    if (flags & Flag.priority) {
      if (end - start < PRIORITY_BYTES)
        throw new ConnectionError(ErrorCode.frameSizeError, "HEADERS without its priority");
      const dependency = bytes.readUInt32BE(start) & 0x7fff_ffff;
      if (dependency === streamId) throw protocolError("a stream that depends on itself");
      start += PRIORITY_BYTES;
    }
    this.#isEnd = (flags & Flag.endStream) !== 0;
    if (flags & Flag.endHeaders) {
      this.#takeBlock(streamId, this.#isEnd, bytes, start, end);
      return;
    }
    this.openStreamId = streamId;
    this.#frames = 0;
    this.#filled = 0;
    this.#append(bytes, start, end);
  }

  /** Takes the payload of a CONTINUATION frame. */
  takeContinuation(streamId: number, flags: number, bytes: Buffer, start: number, end: number): void {
    if (this.openStreamId === 0 || streamId !== this.openStreamId) throw protocolError("CONTINUATION of nothing");
    this.#append(bytes, start, end);
    if ((flags & Flag.endHeaders) === 0) return;
    this.openStreamId = 0;
    const block = this.#block;
    this.#block = NOTHING;
    this.#takeBlock(streamId, this.#isEnd, block, 0, this.#filled);
  }

  #append(bytes: Buffer, start: number, end: number): void {
    const { headerBlockBytesMax, headerFramesMax } = this.#bounds;
    const size = this.#filled + end - start;
    if (++this.#frames > headerFramesMax || size > headerBlockBytesMax)
      throw new ConnectionError(ErrorCode.enhanceYourCalm, "a header block without end", "header_flood");
    if (size > this.#block.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(headerBlockBytesMax, Math.max(2 * size, 1_024)));
      this.#block.copy(larger, 0, 0, this.#filled);
      this.#block = larger;
    }
    bytes.copy(this.#block, this.#filled, start, end);
    this.#filled = size;
  }
}
