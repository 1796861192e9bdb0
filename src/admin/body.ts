// Reads the body of an HTTP request into memory, up to a bound.

import type { IncomingMessage } from "node:http";

/** The body is longer than the bound; its rest is not read. */
export class BodyTooLargeError extends Error {
  override readonly name = "BodyTooLargeError";
}

/** Resolves to the whole body. Rejects with BodyTooLargeError as soon as it is known to be longer than `bytesMax`. */
export async function readBody(request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  if (Number(request.headers["content-length"] ?? 0) > bytesMax) throw tooLarge(bytesMax);
  const chunks: Buffer[] = [];
  let bytes = 0;
  // The stream is left open on a throw, so that the refusal can still be sent on its socket.
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    bytes += (chunk as Buffer).length;
    if (bytes > bytesMax) throw tooLarge(bytesMax);
    chunks.push(chunk as Buffer);
  }
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, bytes);
}

function tooLarge(bytesMax: number): BodyTooLargeError {
  return new BodyTooLargeError(`expected a body of at most ${bytesMax} bytes`);
}
