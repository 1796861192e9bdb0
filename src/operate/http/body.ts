// Reads the body of an HTTP request into memory, up to a bound.

import type { IncomingMessage } from "node:http";

/** The body is longer than the bound; its rest is not read. */
export class BodyTooLargeError extends Error {
  override readonly name = "BodyTooLargeError";
}

/** The bodies that are being read, at most `bytesMax` in all: beyond that, the one that began first is dropped with its connection. */
export class HeldBodies {
  readonly #bytesMax: number;
  /** In the order in which they began. */
  readonly #bytes = new Map<IncomingMessage, number>();
  #sum = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  add(request: IncomingMessage, bytes: number): void {
    this.#bytes.set(request, (this.#bytes.get(request) ?? 0) + bytes);
    this.#sum += bytes;
    for (const oldest of this.#bytes.keys()) {
      if (this.#sum <= this.#bytesMax) return;
      this.delete(oldest);
      oldest.destroy();
    }
  }

  /** The body is complete, or nobody reads it. */
  delete(request: IncomingMessage): void {
    this.#sum -= this.#bytes.get(request) ?? 0;
    this.#bytes.delete(request);
  }
}

/**
 * Resolves to the whole body. Rejects with BodyTooLargeError as soon as it is known to be longer than `bytesMax`. `held` bounds bodies of
 * callers whom nobody knows.
 */
export async function readBody(request: IncomingMessage, bytesMax: number, held?: HeldBodies): Promise<Buffer> {
  try {
    return await readChunks(request, bytesMax, held);
  } finally {
    held?.delete(request);
  }
}

async function readChunks(request: IncomingMessage, bytesMax: number, held?: HeldBodies): Promise<Buffer> {
  if (Number(request.headers["content-length"] ?? 0) > bytesMax) throw tooLarge(bytesMax);
  const chunks: Buffer[] = [];
  let bytes = 0;
  // The stream is left open on a throw, so that the refusal can still be sent on its socket.
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    bytes += (chunk as Buffer).length;
    if (bytes > bytesMax) throw tooLarge(bytesMax);
    chunks.push(chunk as Buffer);
    held?.add(request, (chunk as Buffer).length);
  }
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, bytes);
}

function tooLarge(bytesMax: number): BodyTooLargeError {
  return new BodyTooLargeError(`expected a body of at most ${bytesMax} bytes`);
}
