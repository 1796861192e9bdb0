// A call of health or reflection, on its stream.
// Invariants: a request is handled in a turn (stream-turns.ts), and never while an answer waits for the peer; the peer gets window back for
// what is handled, or is not a whole message yet.

import { GrpcStatus } from "../../unary.ts";
import type { CallStatus, MessageCall, MessageMethod } from "../transport.ts";
import type { Connection } from "./connection.ts";
import { GrpcCall } from "./grpc-call.ts";
import type { RequestHead } from "./header-blocks.ts";
import type { Http2Server } from "./http2-server.ts";
import { messageOf } from "./sender.ts";

const OK: CallStatus = { code: GrpcStatus.ok, details: "" };

export class StreamedCall extends GrpcCall implements MessageCall {
  readonly #method: MessageMethod;
  // `ended`: the handler has been given all that the peer sent.
  #state: "open" | "ended" | "closed" = "open";
  // Received and not given back to the window.
  #owed = 0;
  #answerBytes = 0;
  #onOver: (() => void) | undefined;

  constructor(server: Http2Server, connection: Connection, head: RequestHead, id: number) {
    super(server);
    this.#method = server.known.others.get(head.path) as MessageMethod;
    server.counts.streams++;
    this.begin(connection, id, head);
  }

  protected get takesMany(): boolean {
    return this.#method.definition.requestStream;
  }

  get waitsForPeer(): boolean {
    return true;
  }

  takeData(bytes: Buffer, start: number, end: number, _isEnd: boolean): void {
    this.#owed += end - start;
    if (this.gather(bytes, start, end)) this.#proceed();
  }

  // Asks for a turn if there is something to handle.
  #proceed(): void {
    if (this.#hasWork()) this.server.turns.enter(this.connection, this);
    else if (!this.hasMessage() && this.#owed > 0) {
      this.connection?.credit(this, this.#owed);
      this.#owed = 0;
    }
  }

  #hasWork(): boolean {
    if (this.#state !== "open" || this.answers.length > 0) return false;
    return this.isRemoteDone || (this.takesMany && this.hasMessage());
  }

  takeTurn(): boolean {
    if (!this.#hasWork()) return false;
    try {
      this.#handleNext();
    } catch (error) {
      this.server.options.observer.handlerFailed(this.#method.definition.path, error);
      this.refuse(GrpcStatus.internal, "internal error");
    }
    if (this.#hasWork()) return true;
    this.#proceed();
    return false;
  }

  #handleNext(): void {
    if (this.takesMany && this.keptBytes === 0) {
      this.#state = "ended";
      this.#method.handle(undefined, this);
    } else if (this.requireMessage()) {
      const request = this.#takeRequest();
      if (request === undefined) return;
      if (!this.takesMany) this.#state = "ended";
      this.#method.handle(request, this);
    }
  }

  // Undefined if the call has failed because of it.
  #takeRequest(): object | undefined {
    try {
      return this.#method.definition.requestDeserialize(this.takeMessage());
    } catch {
      this.refuse(GrpcStatus.internal, "Error deserializing request");
      return undefined;
    }
  }

  get unread(): number {
    return this.answers.length;
  }

  answer(message: object): void {
    if (this.#state === "closed" || this.ending !== undefined) return;
    this.keepAnswer(messageOf(this.#method.definition.responseSerialize(message)));
    this.connection?.send(this);
  }

  end(status = OK): void {
    if (this.#state === "closed" || this.ending !== undefined) return;
    this.ending = status;
    this.connection?.send(this);
  }

  onOver(listener: () => void): void {
    this.#onOver = listener;
  }

  override afterSending(): void {
    if (this.#countAnswers()) this.#proceed();
    else this.refuseUnread();
  }

  #countAnswers(): boolean {
    let bytes = 0;
    for (const answer of this.answers) bytes += answer.length;
    const more = bytes - this.#answerBytes;
    this.#answerBytes = bytes;
    return this.count(more);
  }

  override giveUp(): void {
    this.refuse(GrpcStatus.unavailable, "the connection is about to close");
  }

  override closed(): void {
    this.#state = "closed";
    this.answers.length = 0;
    this.#countAnswers();
    super.closed();
    this.#onOver?.();
  }
}
