// The header blocks of our answers. After a connection's first answer they are a few bytes of indices, which are kept.

import { GRPC_CONTENT, percentEncoded } from "../grpc-headers.ts";
import { HpackEncoder } from "./hpack/encoder.ts";

type Field = readonly [name: string, value: string];
const STATUS_200: Field = [":status", "200"];
const CONTENT_TYPE: Field = ["content-type", GRPC_CONTENT];

/** Makes blocks with the encoder of one connection. Each block must be written out before the next one is made. */
export class ResponseBlocks {
  readonly encoder = new HpackEncoder();
  #head: Buffer | undefined;
  #okTrailers: Buffer | undefined;
  #generation = -1;

  /** The headers before a message. */
  head(): Buffer {
    this.#forgetOld();
    if (this.#head === undefined) {
      const block = this.#encode([STATUS_200, CONTENT_TYPE]);
      if (!this.encoder.isRepeatable) return block;
      this.#head = Buffer.from(block);
    }
    return this.#head;
  }

  /** The trailers after a message, with status OK. At most OK_TRAILERS_BYTES_MAX bytes. */
  okTrailers(): Buffer {
    this.#forgetOld();
    if (this.#okTrailers === undefined) {
      const block = this.#encode([["grpc-status", "0"]]);
      if (!this.encoder.isRepeatable) return block;
      this.#okTrailers = Buffer.from(block);
    }
    return this.#okTrailers;
  }

  /** The last block of a call that failed: its trailers, and its headers too unless they were sent. */
  failure(status: number, message: string, hasHead: boolean, acceptEncoding = ""): Buffer {
    const fields: Field[] = hasHead ? [] : [STATUS_200, CONTENT_TYPE];
    if (acceptEncoding !== "") fields.push(["grpc-accept-encoding", acceptEncoding]);
    fields.push(["grpc-status", String(status)]);
    if (message !== "") fields.push(["grpc-message", percentEncoded(message)]);
    return this.#encode(fields);
  }

  /** The headers of an answer to a request that is not gRPC. */
  notGrpc(): Buffer {
    return this.#encode([
      [":status", "415"],
      ["content-type", "text/plain"],
    ]);
  }

  #encode(fields: readonly Field[]): Buffer {
    this.encoder.begin();
    for (const [name, value] of fields) this.encoder.field(name, value);
    return this.encoder.end();
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
