// The header blocks of our answers. After a connection's first answer they are a few bytes of indices, which are kept.

import { HpackEncoder } from "./hpack/encoder.ts";

const CONTENT_TYPE = "application/grpc";
/** Longer messages are cut, because they travel in a header. */
const MESSAGE_CHARS_MAX = 1_024;

/** Makes blocks with the encoder of one connection. Each block must be written out before the next one is made. */
export class ResponseBlocks {
  readonly encoder = new HpackEncoder();
  #head: Buffer | undefined;
  #okTrailers: Buffer | undefined;
  #generation = -1;

  /** The headers before a message. */
  head(): Buffer {
    if (this.#head !== undefined && this.#generation === this.encoder.generation) return this.#head;
    this.#forget();
    const { encoder } = this;
    encoder.begin();
    encoder.field(":status", "200");
    encoder.field("content-type", CONTENT_TYPE);
    const block = encoder.end();
    if (encoder.isRepeatable) this.#head = Buffer.from(block);
    return block;
  }

  /** The trailers after a message, with status OK. At most OK_TRAILERS_BYTES_MAX bytes. */
  okTrailers(): Buffer {
    if (this.#okTrailers !== undefined && this.#generation === this.encoder.generation) return this.#okTrailers;
    this.#forget();
    const { encoder } = this;
    encoder.begin();
    encoder.field("grpc-status", "0");
    const block = encoder.end();
    if (encoder.isRepeatable) this.#okTrailers = Buffer.from(block);
    return block;
  }

  /** The only block of a call that failed: headers and trailers in one. */
  trailersOnly(status: number, message: string, acceptEncoding = ""): Buffer {
    const { encoder } = this;
    encoder.begin();
    encoder.field(":status", "200");
    encoder.field("content-type", CONTENT_TYPE);
    if (acceptEncoding !== "") encoder.field("grpc-accept-encoding", acceptEncoding);
    this.#status(status, message);
    return encoder.end();
  }

  /** The trailers of a stream that fails after its headers were sent. */
  failureTrailers(status: number, message: string): Buffer {
    this.encoder.begin();
    this.#status(status, message);
    return this.encoder.end();
  }

  #status(status: number, message: string): void {
    this.encoder.field("grpc-status", String(status));
    if (message !== "") this.encoder.field("grpc-message", percentEncoded(message));
  }

  // Blocks of another generation are invalid. The two kept blocks have one generation.
  #forget(): void {
    if (this.#generation === this.encoder.generation) return;
    this.#generation = this.encoder.generation;
    this.#head = undefined;
    this.#okTrailers = undefined;
  }
}

/** Most bytes of the trailers of a good answer, with a change of the table's size. */
export const OK_TRAILERS_BYTES_MAX = 64;

/** The message in the form of `grpc-message`: printable ASCII except `%` stays, all other bytes of its UTF-8 become %XX. */
export function percentEncoded(message: string): string {
  const text = message.length > MESSAGE_CHARS_MAX ? message.slice(0, MESSAGE_CHARS_MAX) : message;
  if (/^[ -$&-~]*$/.test(text)) return text;
  let encoded = "";
  for (const byte of Buffer.from(text, "utf8")) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += isPlain ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return encoded;
}
