// A call with streams of messages, on its HTTP/2 stream. Invariants: a request is handled in a turn (stream-turns.ts),
// and never while an answer waits for the peer; the peer gets window back for what is handled, or is not a whole
// message yet.

import type { Connection } from "./connection.ts";
import { GrpcCall } from "./grpc-call.ts";
import type { RequestHead } from "./header-blocks.ts";
import type { Http2Server } from "./http2-server.ts";
import { type CallStatus, GrpcStatus, type StreamCall, type StreamMethod } from "./methods.ts";
import { messageOf } from "./sender.ts";

const OK: CallStatus = { code: GrpcStatus.ok, details: "" };

export class StreamedCall extends GrpcCall implements StreamCall {
  readonly #method: StreamMethod;
  // `ended`: the handler has been given all that the peer sent.
  #state: "open" | "ended" | "closed" = "open";
  // Received and not given back to the window.
  #owed = 0;
  #answerBytes = 0;
  // Whether answers waited when they were sent last.
  #isBehind = false;
  #onRead: (() => void) | undefined;
  #onOver: (() => void) | undefined;
  readonly #handle = () => this.#handleNext();

  constructor(server: Http2Server, connection: Connection, head: RequestHead, id: number) {
    super(server);
    this.#method = server.known.others.get(head.path) as StreamMethod;
    server.counts.streams++;
    this.begin(connection, id, head);
  }

  protected get takesMany(): boolean {
    return this.#method.takesMany;
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
    this.#guarded(this.#handle);
    if (this.#hasWork()) return true;
    this.#proceed();
    return false;
  }

  #guarded(ofHandler: () => void): void {
    try {
      ofHandler();
    } catch (error) {
      this.server.options.observer.handlerFailed(this.#method.path, error);
      this.refuse(GrpcStatus.internal, "internal error");
    }
  }

  #handleNext(): void {
    if (this.takesMany && this.keptBytes === 0) {
      this.#state = "ended";
      this.#method.handle(undefined, this);
    } else if (this.requireMessage()) {
      const request = this.takeMessage();
      if (!this.takesMany) this.#state = "ended";
      this.#method.handle(request, this);
    }
  }

  get unread(): number {
    return this.answers.length;
  }

  answer(message: Uint8Array): void {
    if (this.#state === "closed" || this.ending !== undefined) return;
    this.keepAnswer(messageOf(message));
    this.connection?.send(this);
  }

  end(status = OK): void {
    if (this.#state === "closed" || this.ending !== undefined) return;
    this.ending = status;
    this.connection?.send(this);
  }

  onRead(listener: () => void): void {
    this.#onRead = listener;
  }

  onOver(listener: () => void): void {
    this.#onOver = listener;
  }

  override afterSending(): void {
    if (!this.#countAnswers()) {
      this.refuseUnread();
      return;
    }
    const wasBehind = this.#isBehind;
    this.#isBehind = this.answers.length > 0;
    if (wasBehind && !this.#isBehind && this.#onRead !== undefined) this.#guarded(this.#onRead);
    this.#proceed();
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
