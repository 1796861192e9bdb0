// Reading requests and answers as they travel: framing, compression, errors, nonsense.

import { deflateSync, gzipSync } from "node:zlib";
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
    { name: "compressed by an unknown way", answer: answerOf(compressed(Buffer.from("x"))) },
  ])("$name are unreadable", ({ answer }) => {
    expect(() => readAnswer(answer)).toThrow(UnreadableError);
  });
});

describe("messages", () => {
  const message = requestBytes({ user: "a".repeat(100) });

  test.each([
    { name: "plain", body: framed(message), encoding: undefined },
    { name: "in gzip", body: compressed(gzipSync(message)), encoding: "gzip" },
    { name: "in deflate", body: compressed(deflateSync(message)), encoding: "deflate" },
  ])("$name are unwrapped", ({ body, encoding }) => {
    expect(messageOf(body, encoding === undefined ? {} : { "grpc-encoding": encoding })).toEqual(message);
  });

  test("that would unfold to more than 8 MiB are unreadable", () => {
    const bomb = compressed(gzipSync(Buffer.alloc(9_000_000)));
    expect(() => messageOf(bomb, { "grpc-encoding": "gzip" })).toThrow(UnreadableError);
  });

  test("of requests are read", () => {
    expect(readRequest(message)).toMatchObject({
      domain: "edge",
      descriptors: [{ entries: [{ key: "user", value: "a".repeat(100) }] }],
      hits_addend: 0,
    });
  });
});
