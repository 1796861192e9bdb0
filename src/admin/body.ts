// Reads the body of an HTTP request into memory, up to a bound.

import type { IncomingMessage } from "node:http";

/** Bytes of all bodies together that have not come whole. Beyond it only bodies of SMALL_BYTES are waited for. */
const PARTIAL_BYTES_MAX = 64 * 2 ** 20;
/** Bodies of up to this length are always read, so that large ones that don't come keep none of them out. */
const SMALL_BYTES = 4_096;
let partialBytes = 0;

/** The body is longer than the bound; its rest is not read. */
export class BodyTooLargeError extends Error {
  override readonly name = "BodyTooLargeError";
}

/** Too many bytes of other bodies are waited for; this one's rest is not read. */
export class BodiesTooManyError extends Error {
  override readonly name = "BodiesTooManyError";
}

/** Resolves to the whole body. Rejects with BodiesTooManyError if PARTIAL_BYTES_MAX is reached. Rejects with BodyTooLargeError as soon as it is known to be longer than `bytesMax`. */
export async function readBody(request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  if (Number(request.headers["content-length"] ?? 0) > bytesMax) throw tooLarge(bytesMax);
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    // The stream is left open on a throw, so that the refusal can still be sent on its socket.
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      bytes += (chunk as Buffer).length;
      partialBytes += (chunk as Buffer).length;
      if (bytes > bytesMax) throw tooLarge(bytesMax);
      if (partialBytes > PARTIAL_BYTES_MAX && bytes > SMALL_BYTES) {
        throw new BodiesTooManyError(`more than ${PARTIAL_BYTES_MAX} bytes of unfinished bodies`);
      }
      chunks.push(chunk as Buffer);
    }
  } finally {
    partialBytes -= bytes;
  }
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, bytes);
}

function tooLarge(bytesMax: number): BodyTooLargeError {
  return new BodyTooLargeError(`expected a body of at most ${bytesMax} bytes`);
}
