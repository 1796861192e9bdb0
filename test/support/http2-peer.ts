// An HTTP/2 client that says exactly what a test wants, right or wrong, over a socket or inside the process.

import { connect as connectSocket } from "node:net";
import type { Duplex } from "node:stream";
import { FrameReader } from "../../packages/fast-lane/src/frame-intake.ts";
import { HpackDecoder } from "../../packages/fast-lane/src/hpack/decoder.ts";
import { HpackEncoder } from "../../packages/fast-lane/src/hpack/encoder.ts";
import { HeaderList } from "../../packages/fast-lane/src/hpack/header-list.ts";
import { Flag, FrameType, PREFACE } from "../../packages/fast-lane/src/protocol.ts";
import { writeFrameHead } from "../../packages/fast-lane/src/sender.ts";
import { endWithTest } from "./ends.ts";

/** What has not come after this never will, on however busy a machine. */
const NEVER_MS = 40_000;

export type Field = readonly [name: string, value: string];

/** A frame as it came, its payload copied; header blocks decoded. */
export interface SeenFrame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
  readonly fields: ReadonlyMap<string, string>;
}

/** A frame's bytes. */
export function frameOf(type: number, flags: number, streamId: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  writeFrameHead(head, 0, payload.length, type, flags, streamId);
  return Buffer.concat([head, payload]);
}

/** SETTINGS of identifier and value pairs. */
export function settingsOf(...pairs: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.alloc(pairs.length * 6);
  for (const [i, [id, value]] of pairs.entries()) {
    payload.writeUInt16BE(id, i * 6);
    payload.writeUInt32BE(value, i * 6 + 2);
  }
  return frameOf(FrameType.settings, 0, 0, payload);
}

/** Four bytes. */
export function wordOf(value: number): Buffer {
  const word = Buffer.alloc(4);
  word.writeUInt32BE(value);
  return word;
}

/** A message with its five bytes before it. */
export function messageOf(message: string | Uint8Array): Buffer {
  const bytes = Buffer.from(message as string);
  return Buffer.concat([Buffer.from([0]), wordOf(bytes.length), bytes]);
}

/** Headers of a unary call of `path`. */
export function callFields(path: string, ...more: Field[]): Field[] {
  return [
    [":method", "POST"],
    [":scheme", "http"],
    [":path", path],
    [":authority", "test"],
    ["content-type", "application/grpc"],
    ["te", "trailers"],
    ...more,
  ];
}

/** A header block that refers to no table, so it is the same bytes on every stream of every connection. */
export function plainBlock(fields: readonly Field[]): Buffer {
  const literals = fields.map(([name, value]) =>
    Buffer.from(`\0${String.fromCharCode(name.length)}${name}${String.fromCharCode(value.length)}${value}`, "latin1"),
  );
  return Buffer.concat(literals);
}

export class Http2Peer {
  readonly duplex: Duplex;
  readonly frames: SeenFrame[] = [];
  readonly encoder: HpackEncoder;
  /** Whatever came before the first frame or in place of it. */
  raw = Buffer.alloc(0);
  isClosed = false;
  answersPings = false;
  readonly #decoder = new HpackDecoder(1_000_000, Buffer.alloc(1_000_000));
  readonly #waiting = new Set<() => void>();

  constructor(duplex: Duplex, encoder = new HpackEncoder()) {
    this.duplex = duplex;
    this.encoder = encoder;
    const reader = new FrameReader({ takeFrame: (...frame) => this.#take(...frame) });
    duplex.on("data", (chunk: Buffer) => {
      if (this.frames.length === 0) this.raw = Buffer.concat([this.raw, chunk]);
      if (this.raw.subarray(0, 5).toString("latin1") !== "HTTP/") reader.read(chunk, 0);
      this.#notify();
    });
    duplex.on("error", () => this.#notify());
    duplex.on("close", () => {
      this.isClosed = true;
      this.#notify();
    });
  }

  send(...bytes: Uint8Array[]): void {
    if (!this.duplex.destroyed) this.duplex.write(Buffer.concat(bytes));
  }

  /** Preface and settings. */
  greet(...pairs: readonly (readonly [id: number, value: number])[]): void {
    this.send(PREFACE, settingsOf(...pairs));
  }

  /** The bytes of a header block in one HEADERS frame. */
  headers(streamId: number, fields: readonly Field[], flags: number = Flag.endHeaders): Buffer {
    return frameOf(FrameType.headers, flags, streamId, this.block(fields));
  }

  block(fields: readonly Field[]): Buffer {
    this.encoder.begin();
    for (const [name, value] of fields) this.encoder.field(name, value);
    return Buffer.from(this.encoder.end());
  }

  /** The frames of a whole unary call. */
  call(streamId: number, path: string, message: string | Uint8Array, ...more: Field[]): Buffer {
    const data = frameOf(FrameType.data, Flag.endStream, streamId, messageOf(message));
    return Buffer.concat([this.headers(streamId, callFields(path, ...more)), data]);
  }

  /** Resolves when `isDone` holds, which is asked again after everything that comes. */
  async until(isDone: () => boolean, what: string): Promise<void> {
    if (isDone()) return;
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`waited in vain for ${what}`)), NEVER_MS);
      const check = () => {
        if (!isDone()) return;
        clearTimeout(timer);
        this.#waiting.delete(check);
        resolve();
      };
      this.#waiting.add(check);
    });
  }

  /** The frame of this type on this stream, when it has come. */
  async seen(type: number, streamId: number, flags = 0): Promise<SeenFrame> {
    const find = () =>
      this.frames.find((f) => f.type === type && f.streamId === streamId && (f.flags & flags) === flags);
    await this.until(() => find() !== undefined || this.isClosed, `frame ${type} on stream ${streamId}`);
    const frame = find();
    if (frame === undefined) throw new Error(`the connection closed before frame ${type} on stream ${streamId}`);
    return frame;
  }

  /** What a call came to: status, message of the status, bytes of the answer. */
  async outcome(streamId: number): Promise<{ status: string | undefined; message: string; body: Buffer }> {
    const end = await this.seen(FrameType.headers, streamId, Flag.endStream);
    const body = this.frames.filter((f) => f.type === FrameType.data && f.streamId === streamId).map((f) => f.payload);
    const { fields } = end;
    return {
      status: fields.get("grpc-status"),
      message: fields.get("grpc-message") ?? "",
      body: Buffer.concat(body).subarray(5),
    };
  }

  /** The code of the GOAWAY, and then the end of the connection. */
  async goodbye(): Promise<number | undefined> {
    await this.until(() => this.isClosed, "the end of the connection");
    return this.frames
      .filter((frame) => frame.type === FrameType.goaway)
      .at(-1)
      ?.payload.readUInt32BE(4);
  }

  close(): void {
    this.duplex.destroy();
  }

  #take(type: number, flags: number, streamId: number, bytes: Buffer, start: number, end: number): boolean {
    const payload = Buffer.from(bytes.subarray(start, end));
    const fields = new Map<string, string>();
    if (type === FrameType.headers) {
      const list = new HeaderList();
      this.#decoder.decode(payload, 0, payload.length, list);
      for (let i = 0; i < list.count; i++) fields.set(list.names[i] ?? "", list.values[i] ?? "");
    }
    if (this.answersPings && type === FrameType.ping && (flags & Flag.ack) === 0) {
      this.send(frameOf(FrameType.ping, Flag.ack, 0, payload));
    }
    this.frames.push({ type, flags, streamId, payload, fields });
    return true;
  }

  #notify(): void {
    for (const check of [...this.#waiting]) check();
  }
}

/** A peer on a socket to a port of the loopback. It has said nothing yet. */
export function peerOf(port: number): Http2Peer {
  const peer = new Http2Peer(connectSocket(port, "127.0.0.1"));
  endWithTest(() => peer.close());
  return peer;
}
