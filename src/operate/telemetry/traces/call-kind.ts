// Names and attributes of spans, for each way of asking: OpenTelemetry's semantic conventions for gRPC and HTTP.

import type { Attributes } from "@opentelemetry/api";
import { GrpcStatus } from "../../../grpc/unary.ts";

/** gRPC's status of a call that its caller gave up. Headgate never sends it, so GrpcStatus does not have it. */
export const CANCELLED = 1;
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

/** The kind of calls of a gRPC method. `path` is such as `/package.Service/Method`. */
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
export function serverFailure(status: SpanStatus): string | undefined {
  return SERVER_FAILURES.includes(status) ? NAMES.get(status) : undefined;
}
