// Reads the body of an HTTP request into memory, up to a bound.

import type { IncomingMessage } from "node:http";
import { finished } from "node:stream";

/** The body is longer than the bound; its rest is not read. */
export class BodyTooLargeError extends Error {
  override readonly name = "BodyTooLargeError";
}

/**
 * Chunks of a body, however short. Each costs some 2 us, so the longest body in chunks of one byte would cost 0.2 s; a
 * client that writes as it encodes sends a few hundred.
 */
const CHUNKS_MAX = 1_024;

/**
 * Resolves to the whole body. Rejects with BodyTooLargeError as soon as it is known to be longer than `bytesMax`, or to
 * have more than CHUNKS_MAX chunks; it does not read the rest, and the connection stays open for the refusal. The
 * server bounds all bodies together.
 */
export function readBody(request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  let body: Buffer = Buffer.alloc(0);
  let bytes = 0;
  let chunks = 0;
  return new Promise<Buffer>((resolve, reject) => {
    const refuse = (most: string) => {
      // What was read of the socket is dropped, and no more is read.
      request.removeAllListeners("data");
      request.pause();
      reject(new BodyTooLargeError(`expected a body of at most ${most}`));
    };
    if (Number(request.headers["content-length"] ?? 0) > bytesMax) return refuse(`${bytesMax} bytes`);
    finished(request, { writable: false }, (error) => (error ? reject(error) : resolve(body.subarray(0, bytes))));
    request.on("data", (chunk: Buffer) => {
      const begin = bytes;
      bytes += chunk.length;
      if (bytes > bytesMax) return refuse(`${bytesMax} bytes`);
      if (++chunks > CHUNKS_MAX) return refuse(`${CHUNKS_MAX} chunks`);
      // Chunks are copied: a caller may send one byte in each, and a kept chunk takes more than a hundred.
      if (bytes > body.length) {
        const larger = Buffer.alloc(Math.min(bytesMax, Math.max(bytes, 2 * body.length)));
        body.copy(larger);
        body = larger;
      }
      chunk.copy(body, begin);
    });
  });
}
