// Reading requests and answers as they travel: errors, nonsense.

import { expect, test } from "vitest";
import { readAnswer, readRequest, UnreadableError } from "../../../../src/tools/mirror/answer.ts";
import { requestBytes } from "../../../support/mirror-rig.ts";

const answerOf = (code: number, message: Buffer) => ({ kind: "answer", code, details: "", message }) as const;

test("answers may be errors", () => {
  expect(readAnswer(answerOf(14, Buffer.alloc(0)))).toMatchObject({ grpcCode: 14 });
});

test("answers of other bytes are unreadable", () => {
  expect(() => readAnswer(answerOf(0, Buffer.from([0x0a, 0xff])))).toThrow(UnreadableError);
});

test("requests are read", () => {
  expect(readRequest(requestBytes({ user: "a".repeat(100) }))).toMatchObject({
    domain: "edge",
    descriptors: [{ entries: [{ key: "user", value: "a".repeat(100) }] }],
    hits_addend: 0,
  });
});
