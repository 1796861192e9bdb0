// What spans of one way of asking are called, and how they say what was answered: OpenTelemetry's conventions for gRPC and HTTP.

import type { Attributes } from "@opentelemetry/api";
import { GrpcStatus } from "../../core/unary.ts";

/** Of a call that its caller gave up; never sent, so not among the codes that answers have. */
export const CANCELLED = 1;
type SpanStatus = GrpcStatus | typeof CANCELLED;

/** How a call ended. */
interface CallEnd {
  readonly status: SpanStatus;
  readonly isRefused: boolean;
}

/** One way of asking. */
export interface CallKind {
  readonly spanName: string;
  /** Of every span. */
  readonly attributes: Attributes;
  /** What the answer was. */
  endAttributes(end: CallEnd): Attributes;
}

const NAMES = new Map<number, string>([
  [CANCELLED, "CANCELLED"],
  ...Object.entries(GrpcStatus).map(([name, code]): [number, string] => [
    code,
    name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase(),
  ]),
]);

/** The gRPC method of a path such as `/package.Service/Method`. */
export function rpcCalls(path: string): CallKind {
  const method = path.slice(1);
  return {
    spanName: method,
    attributes: { "rpc.system.name": "grpc", "rpc.method": method },
    endAttributes: ({ status }) => ({ "rpc.status_code": NAMES.get(status) }),
  };
}

/** Statuses of the JSON endpoint, as it answers them (rls/json.ts). */
type HttpStatusOf = (end: CallEnd) => number;

/** POST to a path of the HTTP port. */
export function httpCalls(path: string, httpStatusOf: HttpStatusOf): CallKind {
  return {
    spanName: `POST ${path}`,
    attributes: { "http.request.method": "POST", "http.route": path, "url.path": path, "url.scheme": "http" },
    endAttributes: (end) => ({ "http.response.status_code": httpStatusOf(end) }),
  };
}

/** What conventions call a failure of the server: the others are the caller's doing, or an answer. */
const SERVER_FAILURES: readonly number[] = [
  GrpcStatus.deadlineExceeded,
  GrpcStatus.unimplemented,
  GrpcStatus.internal,
  GrpcStatus.unavailable,
];

/** The name of the status if it is a failure of the server. */
export function serverFailure(status: SpanStatus): string | undefined {
  return SERVER_FAILURES.includes(status) ? NAMES.get(status) : undefined;
}
