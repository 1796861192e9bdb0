// What a span says of a call that is answered in time, at its deadline, late, or after its caller has gone.

import * as api from "@opentelemetry/api";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { expect, test } from "vitest";
import { LimitCall, NO_FINISHER } from "../../../../../src/engine/limiter/call.ts";
import { GrpcStatus, type UnaryReply } from "../../../../../src/grpc/unary.ts";
import { callTracer, rpcCalls } from "../../../../../src/operate/telemetry/traces/call-tracer.ts";
import { ManualClock } from "../../../../support/manual-clock.ts";

const DEADLINE_US = 50_000;
const ENDS = [
  { name: "one microsecond early", afterUs: DEADLINE_US - 1, late: false },
  { name: "at its deadline", afterUs: DEADLINE_US, late: true },
  { name: "late", afterUs: DEADLINE_US + 1_000, late: true },
];
const CALLERS = [
  { who: "waits", isGone: false },
  { who: "has gone", isGone: true },
];
const ANSWERS = [
  { what: "answered", code: "OK", answer: (reply: UnaryReply) => reply.ok(new Uint8Array()) },
  {
    what: "refused as not understood",
    code: "INVALID_ARGUMENT",
    answer: (reply: UnaryReply) => reply.fail(GrpcStatus.invalidArgument, "not understood"),
  },
];

test.each(
  ENDS.flatMap((end) => CALLERS.flatMap((caller) => ANSWERS.map((answer) => ({ ...end, ...caller, ...answer })))),
)("a call that is $what $name, whose caller $who: its span says what the caller hears", (one) => {
  const spans = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  const clock = new ManualClock();
  const tracer = callTracer({
    api,
    tracer: provider.getTracer("test"),
    clock,
    kind: rpcCalls("/package.Service/Method"),
  });
  const reply: UnaryReply = { isGone: one.isGone, ok: () => undefined, fail: () => undefined };
  const traced = tracer.begin(reply, clock.nowUs() + DEADLINE_US);
  clock.advanceUs(one.afterUs);
  one.answer(traced);
  traced.end(new LimitCall(NO_FINISHER));

  const [span] = spans.getFinishedSpans();
  const code = one.late ? "DEADLINE_EXCEEDED" : one.isGone ? "CANCELLED" : one.code;
  expect(span?.attributes).toMatchObject({ "rpc.status_code": code });
  expect(span?.attributes["error.type"]).toBe(one.late ? "DEADLINE_EXCEEDED" : undefined);
  expect(span?.status.code).toBe(one.late ? api.SpanStatusCode.ERROR : api.SpanStatusCode.UNSET);
});
