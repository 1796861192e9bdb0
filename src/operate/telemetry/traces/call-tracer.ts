// Spans of calls. A span is made after its call has been answered, with times that were read before. So no span stays
// open, and a call that is not recorded costs two clock reads and a check of its header.

import type { Attributes, HrTime, Tracer } from "@opentelemetry/api";
import type { Clock } from "../../../base/clock.ts";
import { divideDown, MICROS_PER_SECOND } from "../../../base/units.ts";
import { ON_STORE_FAILURE_NAMES } from "../../../engine/domain/limit.ts";
import { textOf } from "../../../engine/domain/request.ts";
import type { LimitCall } from "../../../engine/limiter/call.ts";
import { readTraceparent, type SpanIds } from "../../../grpc/trace-context.ts";
import { GrpcStatus, type UnaryReply } from "../../../grpc/unary.ts";
import { SOURCE_NAMES } from "../observers.ts";

/** gRPC's status of a call that its caller gave up. Headgate never sends it, so GrpcStatus does not have it. */
const CANCELLED = 1;
type SpanStatus = GrpcStatus | typeof CANCELLED;

/** How a call ended. */
interface CallEnd {
  readonly status: SpanStatus;
  readonly isRefused: boolean;
}

/** A way of asking: a gRPC method, or an HTTP path. */
export interface CallKind {
  readonly spanName: string;
  /** Attributes of every span of this kind. */
  readonly attributes: Attributes;
  /** Attributes that tell the answer. */
  endAttributes(end: CallEnd): Attributes;
}

const NAMES = new Map<number, string>([
  [CANCELLED, "CANCELLED"],
  ...Object.entries(GrpcStatus).map(([name, code]): [number, string] => [
    code,
    name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase(),
  ]),
]);

/** The kind of calls of a gRPC method. `path`: `/package.Service/Method`. */
export function rpcCalls(path: string): CallKind {
  const method = path.slice(1);
  return {
    spanName: method,
    attributes: { "rpc.system.name": "grpc", "rpc.method": method },
    endAttributes: ({ status }) => ({ "rpc.status_code": NAMES.get(status) }),
  };
}

/** The HTTP status that grpc/rls/json.ts answers. */
type HttpStatusOf = (end: CallEnd) => number;

/** The kind of POST requests to a path of the HTTP port. */
export function httpCalls(path: string, httpStatusOf: HttpStatusOf): CallKind {
  return {
    spanName: `POST ${path}`,
    attributes: { "http.request.method": "POST", "http.route": path, "url.path": path, "url.scheme": "http" },
    endAttributes: (end) => ({ "http.response.status_code": httpStatusOf(end) }),
  };
}

/** Statuses that the conventions call errors of the server; all others are errors of the caller, or answers. */
const SERVER_FAILURES: readonly number[] = [
  GrpcStatus.unknown,
  GrpcStatus.deadlineExceeded,
  GrpcStatus.unimplemented,
  GrpcStatus.internal,
  GrpcStatus.unavailable,
];

/** The name of the status if it is an error of the server; otherwise undefined. */
function serverFailure(status: SpanStatus): string | undefined {
  return SERVER_FAILURES.includes(status) ? NAMES.get(status) : undefined;
}

/** Longest domain in a span: callers choose the domain. */
const DOMAIN_CHARS_MAX = 256;

interface CallTracerOptions {
  readonly api: typeof import("@opentelemetry/api");
  readonly tracer: Tracer;
  readonly clock: Clock;
  readonly kind: CallKind;
}

export type CallTracer = ReturnType<typeof callTracer>;

/**
 * Makes the spans of one kind of call. `begin` begins one; the call must be answered through the reply that it returns.
 */
export function callTracer(options: CallTracerOptions) {
  return { begin: (reply: UnaryReply, deadlineUs: number) => new TracedReply(reply, deadlineUs, options) };
}

/** A reply that notes how and when the call is answered. */
class TracedReply implements UnaryReply {
  readonly traceparent: string | undefined;
  readonly #reply: UnaryReply;
  readonly #options: CallTracerOptions;
  readonly #deadlineUs: number;
  readonly #beganUs: number;
  #answeredUs = 0;
  #status: GrpcStatus | typeof CANCELLED = GrpcStatus.ok;
  #failure = "";

  constructor(reply: UnaryReply, deadlineUs: number, options: CallTracerOptions) {
    this.#reply = reply;
    this.#options = options;
    this.#deadlineUs = deadlineUs;
    this.#beganUs = options.clock.nowUs();
    this.traceparent = reply.traceparent;
  }

  get isGone(): boolean {
    return this.#reply.isGone === true;
  }

  ok(message: Uint8Array): void {
    this.#note(GrpcStatus.ok);
    this.#reply.ok(message);
  }

  fail(status: GrpcStatus, message: string): void {
    this.#failure = message;
    this.#note(status);
    this.#reply.fail(status, message);
  }

  // Noted before the answer is sent, because afterwards every call looks gone. A late answer counts as
  // DEADLINE_EXCEEDED: grpc-js may have just sent that by itself, without saying so.
  #note(status: GrpcStatus): void {
    this.#answeredUs = this.#options.clock.nowUs();
    if (this.#answeredUs >= this.#deadlineUs) this.#status = GrpcStatus.deadlineExceeded;
    else this.#status = this.isGone ? CANCELLED : status;
  }

  /** Ends the span; to be called after the answer. Returns the ids of the span, or undefined if it is not recorded. */
  end(call: LimitCall): SpanIds | undefined {
    const { api, tracer, kind } = this.#options;
    const parent = readTraceparent(this.traceparent);
    // The sampler would follow the caller, too, but costs more.
    if (parent?.isSampled === false) return undefined;
    const { ROOT_CONTEXT, SpanKind, SpanStatusCode, TraceFlags, trace } = api;
    const context =
      parent === undefined
        ? ROOT_CONTEXT
        : trace.setSpanContext(ROOT_CONTEXT, {
            traceId: parent.traceId,
            spanId: parent.spanId,
            traceFlags: parent.isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
            isRemote: true,
          });
    const startTime = hrTime(this.#beganUs);
    const span = tracer.startSpan(
      kind.spanName,
      { kind: SpanKind.SERVER, startTime, attributes: kind.attributes },
      context,
    );
    if (!span.isRecording()) return undefined;
    const isDecided = call.failure === undefined && this.#failure === "";
    const isRefused = isDecided && call.decision.overLimit;
    span.setAttributes(kind.endAttributes({ status: this.#status, isRefused }));
    span.setAttributes(callAttributes(call));
    if (isDecided) span.setAttributes(decisionAttributes(call));
    const failure = serverFailure(this.#status);
    if (failure !== undefined) {
      span.setAttribute("error.type", failure);
      span.setStatus({ code: SpanStatusCode.ERROR, message: this.#failure });
    }
    span.end(hrTime(this.#answeredUs));
    return span.spanContext();
  }
}

// Values of descriptors are left out: they are people's addresses and keys. The decision log has those that no rule
// hides.
function callAttributes({ request, policy, storeFailure }: LimitCall): Attributes {
  return {
    "rate_limit.domain": textOf(request.domain).slice(0, DOMAIN_CHARS_MAX),
    "headgate.degraded": policy === undefined ? undefined : ON_STORE_FAILURE_NAMES[policy],
    "headgate.degraded_reason": storeFailure?.code,
  };
}

function decisionAttributes({ decision, governing, group, wasShadowed }: LimitCall): Attributes {
  return {
    "rate_limit.decision": decision.overLimit ? "denied" : "allowed",
    "rate_limit.policy": governing === undefined ? undefined : textOf(governing.limit.names.id),
    "rate_limit.remaining": governing?.remaining,
    "headgate.source": SOURCE_NAMES[group.source],
    "headgate.shadowed": wasShadowed || undefined,
  };
}

function hrTime(us: number): HrTime {
  return [divideDown(us, MICROS_PER_SECOND), (us % MICROS_PER_SECOND) * 1_000];
}
