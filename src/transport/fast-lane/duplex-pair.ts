// Two ends of a connection that never leaves the process: what is written to one is read from the other. A write is
// done when the other end has been read, so neither holds more than one write beyond its buffer.

import { Duplex } from "node:stream";

type Done = (error?: Error | null) => void;

class End extends Duplex {
  #other: End | undefined;
  // Called when this end has been read so far that the other may write again.
  #whenRead: Done | undefined;

  join(other: End): void {
    this.#other = other;
  }

  override _read(): void {
    const whenRead = this.#whenRead;
    this.#whenRead = undefined;
    whenRead?.();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    if (this.#other === undefined || this.#other.destroyed) done();
    else this.#other.#receive(chunk, done);
  }

  override _final(done: Done): void {
    if (this.#other !== undefined && !this.#other.destroyed) this.#other.push(null);
    done();
  }

  override _destroy(error: Error | null, done: Done): void {
    const other = this.#other;
    this.#other = undefined;
    this.#whenRead?.();
    this.#whenRead = undefined;
    // Not from inside: the other end may be in the midst of writing to this one.
    if (other !== undefined && !other.destroyed) setImmediate(() => other.destroy());
    done(error);
  }

  #receive(chunk: Buffer, done: Done): void {
    if (this.push(chunk)) done();
    else this.#whenRead = done;
  }
}

/** Two ends joined to each other; when one is destroyed, so is the other. */
export function duplexPair(): [Duplex, Duplex] {
  const near = new End();
  const far = new End();
  near.join(far);
  far.join(near);
  return [near, far];
}
