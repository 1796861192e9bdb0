// Maps errors to gRPC statuses; no other file does. A call over its limit is no error but an answer.

import { RequestError } from "../../engine/base/errors.ts";
import type { CallFailure } from "../../engine/limiter/call.ts";
import { GrpcStatus, type UnaryReply } from "../unary.ts";

/** Ends a call whose request could not be decoded or decided. Any error but a RequestError becomes INTERNAL without detail. */
export function failWithError(reply: UnaryReply, error: unknown): void {
  if (error instanceof RequestError) reply.fail(statusOf(error), `${error.code}: ${error.message}`);
  else
    reply.fail(
      GrpcStatus.internal,
      "SERVICE_INTERNAL: the request could not be decided; the server's log has the cause",
    );
}

// REQUEST_NOT_HELD: the request is well formed, and other rules would allow it.
function statusOf({ code }: RequestError): GrpcStatus {
  return code === "REQUEST_NOT_HELD" ? GrpcStatus.failedPrecondition : GrpcStatus.invalidArgument;
}

/** Ends a settlement that the store did not answer. The caller may settle again: it counts only once. */
export function failUnsettled(reply: UnaryReply, failure: string): void {
  reply.fail(GrpcStatus.unavailable, `SERVICE_STORE_FAILED: the store did not answer (${failure}); settle again`);
}

/** Ends a call that got no decision. */
export function failWithCallFailure(reply: UnaryReply, failure: CallFailure): void {
  switch (failure.kind) {
    case "no-rules":
      reply.fail(GrpcStatus.unavailable, "SERVICE_NO_RULES: no rule set has been loaded yet; see /readyz");
      return;
    case "store":
      failUnanswered(reply, failure);
      return;
    case "internal":
      failWithError(reply, failure.error);
  }
}

// UNAVAILABLE invites callers and proxies to send the call again.
function failUnanswered(
  reply: UnaryReply,
  { error, mayCountTwice }: Extract<CallFailure, { readonly kind: "store" }>,
): void {
  const text = `SERVICE_STORE_FAILED: the store did not answer (${error.code}) and the rule says on_store_failure: error`;
  if (!mayCountTwice) reply.fail(GrpcStatus.unavailable, text);
  else reply.fail(GrpcStatus.unknown, `${text}; it may have counted the report, and would count another one, too`);
}
