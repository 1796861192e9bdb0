// Carries calls between grpc-js and our handlers. A unary call on bytes: its deadline, the bound on calls in flight,
// and at most one reply. A call of health or reflection: its messages.

import type {
  handleUnaryCall,
  MethodDefinition,
  ServerDuplexStream,
  ServiceDefinition,
  UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { deadlineOn } from "../../base/clock.ts";
import { InvariantError } from "../../base/invariant.ts";
import type { StreamCall, StreamMethod } from "../streams.ts";
import { GrpcStatus, type UnaryMethod, type UnaryReply } from "../unary.ts";
import type { CallStatus, GrpcServerOptions, MessageCall, MessageMethod } from "./transport.ts";

/** What all calls of a server share. */
interface CallContext {
  readonly options: GrpcServerOptions;
  /** Calls that their handler has not answered yet. Cancelled ones count, because they still take work. */
  inFlight: number;
}

/** The method as grpc-js registers it, with messages that stay bytes. */
export function onBytes(
  method: Pick<MethodDefinition<object, object>, "path" | "requestStream" | "responseStream">,
): MethodDefinition<Buffer, Buffer> {
  const same = (bytes: Buffer): Buffer => bytes;
  return {
    ...method,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
}

/**
 * The implementation that grpc-js calls for `method`. A call whose deadline has passed, or beyond the bound on calls in
 * flight, is answered without its handler. If a handler throws, only its own caller gets INTERNAL. A handler is called
 * at the end of the turn in which its call was read: after a pause of this process, calls and their cancellations are
 * read together, and a cancelled call must not be paid (test/envoy/failures.test.ts).
 */
export function unaryImplementation(method: UnaryMethod, context: CallContext): handleUnaryCall<Buffer, Buffer> {
  const { clock, observer, inFlightMax } = context.options;
  const report = (error: unknown): void => observer.handlerFailed(method.path, error);
  return (call, respond) => {
    if (context.inFlight >= inFlightMax) {
      observer.overloaded(method.path);
      respond(statusError(GrpcStatus.resourceExhausted, `more than ${inFlightMax} calls in flight`));
      return;
    }
    context.inFlight++;
    let isDone = false;
    const end = (error: CallStatus | null, message: Buffer | null): void => {
      if (isDone) {
        report(new InvariantError("a call is replied to once"));
        return;
      }
      isDone = true;
      context.inFlight--;
      if (call.cancelled) return;
      try {
        respond(error, message);
      } catch (fault) {
        report(fault);
      }
    };
    const reply: UnaryReply = {
      traceparent: call.metadata.get("traceparent")[0]?.toString(),
      get isGone() {
        return call.cancelled;
      },
      // Copied, because the handler uses its buffer again, and grpc-js does not say when it has read the message.
      ok: (message) => end(null, Buffer.from(message)),
      fail: (status, message) => end(statusError(status, message), null),
    };
    const deadlineUs = deadlineOn(clock, Number(call.getDeadline()));
    setImmediate(() => {
      if (call.cancelled) end(null, null);
      else if (deadlineUs <= clock.nowUs()) {
        reply.fail(GrpcStatus.deadlineExceeded, "SERVICE_DEADLINE: the deadline passed before the call was read");
      } else {
        try {
          method.handler.handle(call.request, deadlineUs, reply);
        } catch (error) {
          report(error);
          if (!isDone) reply.fail(GrpcStatus.internal, "internal error");
        }
      }
    });
  };
}

const MESSAGE_CHARS_MAX = 1_024;

function statusError(code: GrpcStatus, message: string): CallStatus {
  return { code, details: detailsOf(message) };
}

/**
 * The message as a status may have it: not too long for a header, and without unpaired surrogates, which have no UTF-8.
 */
export function detailsOf(message: string): string {
  return message.slice(0, MESSAGE_CHARS_MAX).replace(/\p{Surrogate}/gu, "\ufffd");
}

/** The implementation that grpc-js calls for a method of streams. A caller that does not read is not read either. */
export function streamImplementation(
  method: StreamMethod,
  { options: { observer } }: CallContext,
): (call: ServerDuplexStream<Buffer, Buffer>) => void {
  return (call) => {
    let unread = 0;
    let onRead = (): void => undefined;
    const written = (): void => {
      if (--unread > 0) return;
      onRead();
      if (unread === 0) call.resume();
    };
    const own: StreamCall = {
      get unread() {
        return unread;
      },
      answer(message) {
        unread++;
        call.pause();
        call.write(Buffer.from(message), written);
      },
      end: (status) => endStream(call, status),
      onRead: (listener) => {
        onRead = listener;
      },
      onOver: (listener) => call.on("cancelled", listener).on("close", listener),
    };
    const handle = (message: Buffer | undefined): void => {
      try {
        method.handle(message, own);
      } catch (error) {
        observer.handlerFailed(method.path, error);
        own.end({ code: GrpcStatus.internal, details: "internal error" });
      }
    };
    call.on("data", handle).on("end", () => handle(undefined));
  };
}

function endStream(
  call: { end(): unknown; emit(event: "error", error: Error): boolean },
  status: CallStatus | undefined,
): void {
  if (status === undefined) call.end();
  // grpc-js ends a stream with a status when it emits an error that carries one.
  else call.emit("error", Object.assign(new Error(status.details), status));
}

/**
 * The method as grpc-js registers it, and its implementation. One answer is sent like a stream of answers that ends
 * after the first.
 */
export function messageService({
  definition,
  handle,
}: MessageMethod): [ServiceDefinition, UntypedServiceImplementation] {
  const serve = (call: ServerDuplexStream<object, object> & { readonly request?: object | undefined }): void => {
    const own: MessageCall = {
      get unread() {
        return call.writableLength;
      },
      answer: (message) => call.write(message),
      end: (status) => endStream(call, status),
      onOver: (listener) => call.on("cancelled", listener).on("close", listener),
    };
    if (!definition.requestStream) handle(call.request, own);
    else {
      call.on("data", (request: object) => handle(request, own));
      call.on("end", () => handle(undefined, own));
    }
  };
  return [{ it: { ...definition, responseStream: true } }, { it: serve }];
}
