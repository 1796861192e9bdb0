// Answers of a control plane, read from the wire: what any bytes come to, and when two answers hold the same.

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RequestError } from "../../../../src/base/errors.ts";
import { runThrough } from "../../../../src/base/long-work.ts";
import {
  type DiscoveryAnswer,
  RATE_LIMIT_TYPE,
  readDiscoveryAnswer,
} from "../../../../src/rule-sources/xds/discovery.ts";
import { resourceBytes } from "../../../support/resources.ts";
import { runs } from "../../../support/runs.ts";
import { bytesField } from "../../../support/wire.ts";

function answer(version: string, nonce: string, resources: readonly Buffer[]): Buffer {
  const anys = resources.map((value) =>
    bytesField(2, Buffer.concat([bytesField(1, RATE_LIMIT_TYPE), bytesField(2, value)])),
  );
  const type = bytesField(4, RATE_LIMIT_TYPE);
  return Buffer.concat([bytesField(1, version), ...anys, type, bytesField(5, nonce)]);
}

const BOUNDS = { resourcesMax: 4, messageBytesMax: 2_000_000 };

function read(bytes: Buffer, bounds = BOUNDS): DiscoveryAnswer {
  return runThrough(readDiscoveryAnswer(bytes, bounds));
}

const [a, b] = ["a", "b"].map((domain) => resourceBytes({ name: domain, domain })) as [Buffer, Buffer];

describe("an answer", () => {
  test("is its version, nonce and resources", () => {
    const whole = read(answer("7", "n", [a, b]));
    expect(whole).toMatchObject({ version: "7", nonce: "n" });
    expect(whole.resources.map(({ typeUrl, value }) => [typeUrl, value])).toEqual([
      [RATE_LIMIT_TYPE, a],
      [RATE_LIMIT_TYPE, b],
    ]);
  });

  test("holds the same in whatever order its resources come, and another thing with another resource", () => {
    const digest = (...resources: Buffer[]) => read(answer("1", "1", resources)).digest;
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
          const { resources } = read(Buffer.from(bytes));
          for (const { value } of resources) expect(value.length).toBeLessThanOrEqual(bytes.length);
        } catch (error) {
          expect(error).toBeInstanceOf(RequestError);
        }
      }),
      { numRuns: runs(500) },
    );
  });

  test("with a nonce too long to be sent back is malformed", () => {
    expect(read(answer("7", "n".repeat(1_024), [a])).nonce.length).toBe(1_024);
    expect(() => read(answer("7", "n".repeat(1_025), [a]))).toThrow("expected a nonce of at most 1024 bytes");
  });

  test.each([
    {
      what: "of empty resources",
      bytes: Buffer.alloc(2_000_000, bytesField(2, Buffer.alloc(0))),
      steps: 1_000_000 / 4_096,
    },
    {
      what: "of a resource with unknown fields",
      bytes: bytesField(2, Buffer.alloc(1_000_000, bytesField(9, Buffer.alloc(0)))),
      steps: 500_000 / 4_096,
    },
    { what: "of one long resource", bytes: answer("1", "n", [Buffer.alloc(1_900_000)]), steps: 1_900_000 / 262_144 },
  ])("$what is read in short steps", ({ bytes, steps }) => {
    const reading = readDiscoveryAnswer(bytes, BOUNDS);
    let count = 0;
    while (reading.next().done !== true) count++;
    expect(count).toBeGreaterThanOrEqual(Math.floor(steps));
  });

  test("holds a group only to be refused, because a group may be as long as the answer", () => {
    expect(() => read(Buffer.from([0x0b, 0x0c]))).toThrow(RequestError);
  });
});
