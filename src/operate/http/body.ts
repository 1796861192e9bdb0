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
    if (Number(request.headers["content-length"] ?? 0) > bytesMax) throw tooLarge(bytesMax);
    let body: Buffer = Buffer.alloc(0);
    let bytes = 0;
    // The stream is left open on a throw, so that the refusal can still be sent on its socket.
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      const begin = bytes;
      bytes += (chunk as Buffer).length;
      if (bytes > bytesMax) throw tooLarge(bytesMax);
      // Chunks are copied: a caller may send one byte in each, and a kept chunk takes more than a hundred.
      if (bytes > body.length) {
        const larger = Buffer.alloc(Math.min(bytesMax, Math.max(bytes, 2 * body.length)));
        held?.add(request, larger.length - body.length);
        body.copy(larger);
        body = larger;
      }
      (chunk as Buffer).copy(body, begin);
    }
    return body.subarray(0, bytes);
  } finally {
    held?.delete(request);
  }
}

function tooLarge(bytesMax: number): BodyTooLargeError {
  return new BodyTooLargeError(`expected a body of at most ${bytesMax} bytes`);
}
