// The header blocks of our answers. After a connection's first answer they are a few bytes of indices, which are kept.

import { GRPC_CONTENT, percentEncoded } from "../grpc-headers.ts";
import { HpackEncoder } from "./hpack/encoder.ts";

/** Makes blocks with the encoder of one connection. Each block must be written out before the next one is made. */
export class ResponseBlocks {
  readonly encoder = new HpackEncoder();
  #head: Buffer | undefined;
  #okTrailers: Buffer | undefined;
  #generation = -1;

  /** The headers before a message. */
  head(): Buffer {
    this.#forgetOld();
    if (this.#head !== undefined) return this.#head;
    const { encoder } = this;
    encoder.begin();
    encoder.field(":status", "200");
    encoder.field("content-type", GRPC_CONTENT);
    const block = encoder.end();
    if (encoder.isRepeatable) this.#head = Buffer.from(block);
    return block;
  }

  /** The trailers after a message, with status OK. At most OK_TRAILERS_BYTES_MAX bytes. */
  okTrailers(): Buffer {
    this.#forgetOld();
    if (this.#okTrailers !== undefined) return this.#okTrailers;
    const { encoder } = this;
    encoder.begin();
    encoder.field("grpc-status", "0");
    const block = encoder.end();
    if (encoder.isRepeatable) this.#okTrailers = Buffer.from(block);
    return block;
  }

  /** The last block of a call that failed: its trailers, and its headers too unless they were sent. */
  failure(status: number, message: string, hasHead: boolean, acceptEncoding = ""): Buffer {
    const { encoder } = this;
    encoder.begin();
    if (!hasHead) {
      encoder.field(":status", "200");
      encoder.field("content-type", GRPC_CONTENT);
    }
    if (acceptEncoding !== "") encoder.field("grpc-accept-encoding", acceptEncoding);
    encoder.field("grpc-status", String(status));
    if (message !== "") encoder.field("grpc-message", percentEncoded(message));
    return encoder.end();
  }

  /** The headers of an answer to a request that is not gRPC. */
  notGrpc(): Buffer {
    const { encoder } = this;
    encoder.begin();
    encoder.field(":status", "415");
    encoder.field("content-type", "text/plain");
    return encoder.end();
  }

  // Blocks of another generation are invalid. The two kept blocks have one generation.
  #forgetOld(): void {
    if (this.#generation === this.encoder.generation) return;
    this.#generation = this.encoder.generation;
    this.#head = undefined;
    this.#okTrailers = undefined;
  }
}

/** Most bytes of the trailers of a good answer, with a change of the table's size. */
export const OK_TRAILERS_BYTES_MAX = 64;
