// A connection as node:http2 gets it: authorities that it would refuse are replaced. No byte is copied, but all pass
// through JavaScript, which node:http2 spares with sockets of its own (docs/performance.md has the cost).

import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { AuthorityRewriter } from "./grpc-js-authorities.ts";

/** Reads from and writes to `socket`, and ends with it. */
export class RewrittenConnection extends Duplex {
  readonly socket: Socket;

  constructor(socket: Socket) {
    super({ allowHalfOpen: false });
    this.socket = socket;
    const rewriter = new AuthorityRewriter();
    // As node:http2 does with sockets of its own.
    socket.setNoDelay(true);
    socket.on("data", (piece: Buffer) => {
      const bytes = rewriter.rewrite(piece);
      if (bytes.length > 0 && !this.push(bytes)) socket.pause();
    });
    // However the socket ends, node:http2 sees an orderly end. With an error it would send GOAWAY at once, and a write
    // that is still under way then ends the process (an assertion in Node.js's JSStreamSocket).
    socket.once("end", () => this.push(null));
    socket.once("close", () => this.push(null));
    socket.on("error", () => undefined);
  }

  override _read(): void {
    this.socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.socket.write(chunk, () => done());
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: () => void): void {
    const last = chunks.length - 1;
    this.socket.cork();
    for (const [i, { chunk }] of chunks.entries()) this.socket.write(chunk, i === last ? () => done() : undefined);
    this.socket.uncork();
  }

  override _final(done: () => void): void {
    this.socket.end(() => done());
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.socket.destroy();
    done(error);
  }
}
