// A request that is not gRPC: answered with 415 and a line for its sender, once its body has arrived.

import type { ErrorCode } from "./protocol.ts";
import { Stream } from "./stream.ts";
import type { StreamOwner } from "./stream-owner.ts";

/** The rest of a longer body is not waited for. */
const BODY_BYTES_MAX = 65_536;

export class TurnedAwayStream extends Stream {
  readonly #connection: StreamOwner;
  readonly #text: Buffer;
  #sent = 0;
  #state: "reading" | "answering" | "over" = "reading";

  constructor(connection: StreamOwner, id: number, hint: string) {
    super();
    this.id = id;
    this.#connection = connection;
    this.#text = Buffer.from(`This port speaks gRPC: expected content-type application/grpc. ${hint}\n`, "utf8");
  }

  get waitsForPeer(): boolean {
    return true;
  }

  takeData(_bytes: Buffer, start: number, end: number, isEnd: boolean): void {
    if (this.#state !== "reading") return;
    this.#connection.credit(this, end - start);
    if (isEnd || this.received > BODY_BYTES_MAX) this.#begin();
  }

  #begin(): void {
    this.#state = "answering";
    const { sender } = this.#connection;
    const { encoder } = sender.blocks;
    encoder.begin();
    encoder.field(":status", "415");
    encoder.field("content-type", "text/plain");
    sender.headers(this.id, encoder.end(), false);
    this.resume();
  }

  resume(): void {
    if (this.#state !== "answering") return;
    const { sender } = this.#connection;
    this.#sent = sender.data(this, this.#text, this.#sent, true);
    if (this.#sent < this.#text.length) sender.hold(this);
    else {
      this.#state = "over";
      this.#connection.end(this);
    }
    this.#connection.flushSoon();
  }

  abandon(_code: ErrorCode): void {
    this.#state = "over";
  }

  giveUp(): void {
    // It waits only for the peer; the end of the connection ends it.
  }
}
