// Makes a call to one of the servers, within a deadline. Sends a call again only if no server has begun it. Knows no
// messages.

import { type ServiceError, status } from "@grpc/grpc-js";
import { CheckFailure } from "./failure.ts";
import { type Preference, type Server, ServerRing } from "./server-ring.ts";

/** A unary method, with a reader for its answer. */
export interface Method<Answer> {
  readonly path: string;
  /** Throws for bytes that are no answer. */
  readonly read: (message: Buffer) => Answer;
}

/** Calls the servers of one client. */
export class Caller extends ServerRing {
  readonly #deadlineMs: number;

  constructor(options: ConstructorParameters<typeof ServerRing>[0] & { readonly deadlineMs: number }) {
    super(options);
    this.#deadlineMs = options.deadlineMs;
  }

  /**
   * Calls once, at the preferred server. Rejects with a CheckFailure if no usable answer came, or the caller is closed.
   * A server that shuts down may refuse calls that it has not begun; they are sent again, to another server if there is
   * one, while there is time, and at most once more than there are servers.
   */
  async call<Answer>(method: Method<Answer>, message: Buffer, preference?: Preference) {
    const deadline = Date.now() + this.#deadlineMs;
    for (let retriesLeft = this.size; ; retriesLeft--) {
      const server = await this.pick(deadline, retriesLeft === this.size ? preference : undefined);
      if (this.isClosed) throw new CheckFailure("CANCELLED", "the limiter is closed");
      if (server === undefined) {
        throw new CheckFailure("DEADLINE_EXCEEDED", `no connection to any server within ${this.#deadlineMs} ms`);
      }
      const outcome = await this.#send(server, method, message, deadline);
      if (outcome.error === undefined) return { answer: outcome.answer, server: server.address };
      if (!outcome.isUntouched || retriesLeft <= 0) throw failureOf(outcome.error, server.address);
    }
  }

  #send<Answer>(
    server: Server,
    { path, read }: Method<Answer>,
    message: Buffer,
    deadline: number,
  ): Promise<Outcome<Answer>> {
    return new Promise((resolve) => {
      const call = server.client.makeUnaryRequest(path, asItIs, read, message, { deadline }, (error, answer) => {
        if (error === null) {
          this.answered(server);
          resolve({ error: undefined, answer: answer as Answer });
          return;
        }
        const isUnsent = call.getPeer() === server.client.getChannel().getTarget();
        if (!isFaultOfServer(error)) this.answered(server);
        else if (!isUnsent) this.failed(server);
        resolve({ error, isUntouched: isUntouched(error, isUnsent) });
      });
    });
  }
}

type Outcome<Answer> =
  | { readonly error: undefined; readonly answer: Answer }
  | { readonly error: ServiceError; readonly isUntouched: boolean };

/**
 * grpc-js's text for a stream that was reset with REFUSED_STREAM, or that a GOAWAY excluded: in HTTP/2 both mean "not
 * begun".
 */
const REFUSED = "Stream refused by server";

/**
 * Whether it is certain that no server has begun the call. A broken connection does not tell that. `isUnsent`: the call
 * has no peer but the channel's target, because no stream was ever opened for it.
 */
function isUntouched({ code, details }: ServiceError, isUnsent: boolean): boolean {
  return code === status.UNAVAILABLE && (isUnsent || details === REFUSED);
}

function asItIs(bytes: Buffer): Buffer {
  return bytes;
}

/** Statuses about the request, or about the version or rules of all servers: every server would answer them. */
const SAME_EVERYWHERE: readonly status[] = [
  status.INVALID_ARGUMENT,
  status.CANCELLED,
  status.FAILED_PRECONDITION,
  status.UNIMPLEMENTED,
];

function isFaultOfServer({ code }: ServiceError): boolean {
  return !SAME_EVERYWHERE.includes(code);
}

function failureOf(error: ServiceError, server: string): CheckFailure {
  return new CheckFailure(status[error.code] ?? String(error.code), plainDetails(error.details), {
    server,
    cause: error,
  });
}

/**
 * The system's words, without those that grpc-js and OpenSSL put around them. An HTTP/1.1 server in place of a gRPC one
 * is a protocol error, a port without TLS a wrong version.
 */
function plainDetails(details: string): string {
  return (
    details
      .replace(/^round_robin: /, "")
      .replace(/^(?:No connection established\. Last error: )+(?:Error: )?/, "can't connect: ")
      // Of a connection that failed for another channel before, grpc-js doesn't know the error.
      .replace(/^can't connect: null(?=\.)/, "can't connect")
      .replace(/ \(\d{4}-[\w:.-]+\)/, "")
      .replace(/\.? *Resolution note: *$/, "")
      .replace(/\w+:error:\w+:[^:]*:[^:]*:([^:\n]+):[^\n]*\n*$/, "$1")
      .replace(/wrong version number$/, "wrong version number (does this port use TLS?)")
      .replace(/Protocol error$/, "Protocol error (is this the gRPC port?)")
  );
}
