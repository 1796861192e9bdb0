// Reading requests and answers as they travel: framing, errors, nonsense.

import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import type { UnaryOutcome } from "../../../src/grpc/transport/relay/unary-exchange.ts";
import { framed, messageOf, readAnswer, readRequest, UnreadableError } from "../../../src/tools/mirror/answer.ts";
import { answerBytes, requestBytes } from "../../support/mirror-rig.ts";

type Answer = UnaryOutcome & { kind: "answer" };

const answerOf = (body: Buffer, trailers: Answer["trailers"] = { "grpc-status": "0" }): Answer => ({
  kind: "answer",
  headers: {},
  body,
  trailers,
});

function compressed(bytes: Buffer): Buffer {
  const body = framed(bytes);
  body[0] = 1;
  return body;
}

describe("answers", () => {
  test("may be errors, with or without a body before them", () => {
    const error = { "grpc-status": "14", "grpc-message": "away" };
    expect(readAnswer({ ...answerOf(Buffer.alloc(0)), trailers: undefined, headers: error })).toMatchObject({
      grpcCode: 14,
    });
    expect(readAnswer(answerOf(framed(answerBytes({})), error))).toMatchObject({ grpcCode: 14 });
  });

  test.each([
    { name: "without a status", answer: answerOf(framed(answerBytes({})), {}) },
    { name: "cut off", answer: answerOf(framed(answerBytes({ overall_code: "OK" })).subarray(0, 6)) },
    { name: "of other bytes", answer: answerOf(framed(Buffer.from([0x0a, 0xff]))) },
    { name: "compressed", answer: answerOf(compressed(gzipSync(answerBytes({})))) },
  ])("$name are unreadable", ({ answer }) => {
    expect(() => readAnswer(answer)).toThrow(UnreadableError);
  });
});

test("requests are read", () => {
  const message = requestBytes({ user: "a".repeat(100) });
  expect(readRequest(messageOf(framed(message)))).toMatchObject({
    domain: "edge",
    descriptors: [{ entries: [{ key: "user", value: "a".repeat(100) }] }],
    hits_addend: 0,
  });
});
