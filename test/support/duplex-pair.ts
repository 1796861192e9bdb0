// Two connected ends inside the process: what is written to one is read from the other. A write is done when the other end has been
// read, so neither end holds more than one write beyond its buffer.

import { Duplex } from "node:stream";

type Done = (error?: Error | null) => void;

class End extends Duplex {
  #other: End | undefined;
  // The callback of the other end's last write, if this end must be read before more may be written.
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
    // Later, because the other end may be writing to this one right now.
    if (other !== undefined && !other.destroyed) setImmediate(() => other.destroy());
    done(error);
  }

  #receive(chunk: Buffer, done: Done): void {
    if (this.push(chunk)) done();
    else this.#whenRead = done;
  }
}

/** Two ends connected to each other; when one is destroyed, the other is too. */
export function duplexPair(): [Duplex, Duplex] {
  const near = new End();
  const far = new End();
  near.join(far);
  far.join(near);
  return [near, far];
}
