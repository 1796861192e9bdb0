// A call of a method that is not plain bytes, on its stream: health and reflection, whose handlers have the form that grpc-js gives them.
// Invariants: a request is handled in a turn (stream-turns.ts), and never while an answer waits for the peer; the peer gets window back for
// what is handled, or is not a whole message yet; the handler hears "close" once.

import { EventEmitter } from "node:events";
import { GrpcStatus } from "../../unary.ts";
import type { StreamMethod } from "../other-services.ts";
import type { Connection } from "./connection.ts";
import { GrpcCall } from "./grpc-call.ts";
import type { RequestHead } from "./header-blocks.ts";
import type { Http2Server } from "./http2-server.ts";
import { messageOf } from "./sender.ts";

/** What handlers use of a call of grpc-js; of its other parts none is there. */
type Handler = (call: HandlerCall, respond: (error: Partial<StatusError> | null, answer?: unknown) => void) => void;

interface StatusError {
  readonly code: GrpcStatus;
  readonly details: string;
}

export class StreamedCall extends GrpcCall {
  readonly #method: StreamMethod;
  readonly #call = new HandlerCall(this);
  // `new`: the handler has not been called; `ended`: it has been given all that the peer sent.
  #state: "new" | "open" | "ended" | "closed" = "new";
  // Received and not given back to the window.
  #owed = 0;
  #answerBytes = 0;

  constructor(server: Http2Server, connection: Connection, head: RequestHead, id: number) {
    super(server);
    this.#method = server.known.streams.get(head.path) as StreamMethod;
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
    if (this.answers.length > 0) return false;
    if (this.#state === "new") return this.isRemoteDone || this.takesMany;
    return this.#state === "open" && (this.hasMessage() || this.isRemoteDone);
  }

  takeTurn(): boolean {
    if (!this.#hasWork()) return false;
    try {
      if (this.#state === "new") this.#begin();
      else this.#handleNext();
    } catch (error) {
      this.server.options.observer.handlerFailed(this.#method.definition.path, error);
      this.refuse(GrpcStatus.internal, "internal error");
    }
    if (this.#hasWork()) return true;
    this.#proceed();
    return false;
  }

  #begin(): void {
    if (!this.takesMany && (!this.requireMessage() || !this.#read((request) => (this.#call.request = request)))) return;
    this.#state = this.takesMany ? "open" : "ended";
    (this.#method.handler as unknown as Handler)(this.#call, (error, answer) => {
      if (error === null) this.answer(answer);
      this.finish(error);
    });
  }

  #handleNext(): void {
    if (this.hasMessage()) this.#read((request) => this.#call.emit("data", request));
    else if (this.keptBytes > 0) this.requireMessage();
    else {
      this.#state = "ended";
      this.#call.emit("end");
    }
  }

  // Takes the next message out. False if the call has failed because of it.
  #read(handle: (request: unknown) => void): boolean {
    let request: unknown;
    try {
      request = this.#method.definition.requestDeserialize(this.takeMessage());
    } catch {
      this.refuse(GrpcStatus.internal, "Error deserializing request");
      return false;
    }
    handle(request);
    return true;
  }

  /** Sends an answer, or keeps it until the peer reads. */
  answer(answer: unknown): void {
    if (this.#state === "closed" || this.ending !== undefined) return;
    this.keepAnswer(messageOf(this.#method.definition.responseSerialize(answer)));
    this.connection?.send(this);
  }

  /** Ends the call after the answers that wait; with OK if `error` is null. */
  finish(error: Partial<StatusError> | null): void {
    if (this.#state === "closed" || this.ending !== undefined) return;
    this.ending = {
      code: error === null ? GrpcStatus.ok : (error.code ?? GrpcStatus.internal),
      details: error?.details ?? "",
    };
    this.connection?.send(this);
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
    this.#call.emit("close");
  }
}

/** A call in the form that a handler of grpc-js gets. */
class HandlerCall extends EventEmitter {
  request: unknown;
  readonly #stream: StreamedCall;

  constructor(stream: StreamedCall) {
    super();
    this.#stream = stream;
    this.on("error", (error: Partial<StatusError>) => stream.finish(error));
  }

  get writableLength(): number {
    return this.#stream.answers.length;
  }

  write(answer: unknown): void {
    this.#stream.answer(answer);
  }

  end(): void {
    this.#stream.finish(null);
  }
}
