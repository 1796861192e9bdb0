// A request that is not gRPC: answered with 415 and a line for its sender, once its body has arrived.

import type { Connection } from "./connection.ts";
import { Stream } from "./stream.ts";

/** The rest of a longer body is not waited for. */
const BODY_BYTES_MAX = 65_536;

export class TurnedAwayStream extends Stream {
  readonly #connection: Connection;

  constructor(connection: Connection, id: number) {
    super();
    this.id = id;
    this.#connection = connection;
  }

  get waitsForPeer(): boolean {
    return true;
  }

  takeData(_bytes: Buffer, start: number, end: number, isEnd: boolean): void {
    if (this.ending !== undefined) return;
    this.#connection.credit(this, end - start);
    if (!isEnd && this.received <= BODY_BYTES_MAX) return;
    const { sender, server } = this.#connection;
    sender.headers(this.id, sender.blocks.notGrpc(), false);
    this.hasHead = true;
    this.keepAnswer(
      Buffer.from(`This port speaks gRPC: expected content-type application/grpc. ${server.options.hint}\n`, "utf8"),
    );
    this.ending = "body";
    this.#connection.send(this);
  }

  closed(): void {
    // Nothing is kept for it.
  }
}
