// Answers of a control plane, read from the wire: what any bytes come to, and when two answers hold the same.

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RequestError } from "../../../src/core/errors.ts";
import { RATE_LIMIT_TYPE, readAnswer } from "../../../src/xds/discovery.ts";
import { resourceBytes } from "../../support/resources.ts";
import { runs } from "../../support/runs.ts";

/** A field that holds bytes. */
function field(number: number, bytes: Buffer): Buffer {
  const length: number[] = [];
  for (let left = bytes.length; ; left >>>= 7) {
    length.push(left > 0x7f ? (left & 0x7f) | 0x80 : left);
    if (left <= 0x7f) break;
  }
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), bytes]);
}

function answer(version: string, nonce: string, resources: readonly Buffer[]): Buffer {
  const anys = resources.map((value) =>
    field(2, Buffer.concat([field(1, Buffer.from(RATE_LIMIT_TYPE)), field(2, value)])),
  );
  const type = field(4, Buffer.from(RATE_LIMIT_TYPE));
  return Buffer.concat([field(1, Buffer.from(version)), ...anys, type, field(5, Buffer.from(nonce))]);
}

const [a, b] = ["a", "b"].map((domain) => resourceBytes({ name: domain, domain })) as [Buffer, Buffer];

describe("an answer", () => {
  test("is its version, nonce and resources", () => {
    const read = readAnswer(answer("7", "n", [a, b]));
    expect(read).toMatchObject({ version: "7", nonce: "n" });
    expect(read.resources.map(({ typeUrl, value }) => [typeUrl, value])).toEqual([
      [RATE_LIMIT_TYPE, a],
      [RATE_LIMIT_TYPE, b],
    ]);
  });

  test("holds the same in whatever order its resources come, and another thing with another resource", () => {
    const digest = (...resources: Buffer[]) => readAnswer(answer("1", "1", resources)).digest;
    expect(digest(a, b)).toBe(digest(b, a));
    expect(new Set([digest(), digest(a), digest(b), digest(a, a), digest(a, b)]).size).toBe(5);
  });

  test("of any bytes is read, or refused as malformed", () => {
    const whole = answer("7", "n", [a, b]);
    const cut = fc.nat(whole.length).map((end) => whole.subarray(0, end));
    const changed = fc.tuple(fc.nat(whole.length - 1), fc.nat(255)).map(([at, byte]) => {
      const bytes = Buffer.from(whole);
      bytes[at] = byte;
      return bytes;
    });
    const any = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes));
    fc.assert(
      fc.property(fc.oneof(cut, changed, any), (bytes) => {
        try {
          const { resources } = readAnswer(Buffer.from(bytes));
          for (const { value } of resources) expect(value.length).toBeLessThanOrEqual(bytes.length);
        } catch (error) {
          expect(error).toBeInstanceOf(RequestError);
        }
      }),
      { numRuns: runs(500) },
    );
  });
});
