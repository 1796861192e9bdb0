// Messages that are unpacked: never more of them at once than there is room for, none longer than it says, nothing kept.

import { deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Encoding, type Refusal, Unpacking } from "../../../../src/grpc/transport/fast-lane/unpacking.ts";
import { runs } from "../../../support/runs.ts";

const LENGTH_MAX = 1_000_000;

interface Packed {
  readonly encoding: Encoding;
  readonly length: number;
  /** What is done to the bytes after they were packed. */
  readonly harm: "none" | "cut" | "says less" | "says more" | "bytes changed";
}

const packed: fc.Arbitrary<Packed> = fc.record({
  encoding: fc.constantFrom<Encoding>("gzip", "deflate"),
  length: fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 3 * LENGTH_MAX })),
  harm: fc.constantFrom<Packed["harm"]>("none", "none", "cut", "says less", "says more", "bytes changed"),
});

function bytesOf({ encoding, length, harm }: Packed): Buffer {
  const message = Buffer.alloc(length, "a");
  const bytes = encoding === "gzip" ? gzipSync(message) : deflateSync(message);
  const said = bytes.length - 4;
  if (harm === "cut") return bytes.subarray(0, bytes.length >> 1);
  if (harm === "says less") bytes.writeUInt32LE(length >> 1, said);
  if (harm === "says more") bytes.writeUInt32LE(2 * length + 1, said);
  if (harm === "bytes changed") bytes.fill(0xff, 3, 8);
  return bytes;
}

test("messages, true and false, stay within the room, come out as they went in, and leave nothing behind", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(packed, { minLength: 1, maxLength: 30 }),
      fc.integer({ min: 70_000, max: 5_000_000 }),
      async (all, room) => {
        const unpacking = new Unpacking(room);
        let reserved = 0;
        const outcomes = all.map(
          (one) =>
            new Promise<Buffer | Refusal>((resolve) => {
              const refusal = unpacking.unpack(bytesOf(one), one.encoding, LENGTH_MAX, resolve);
              reserved = Math.max(reserved, unpacking.bytes);
              if (refusal !== undefined) resolve(refusal);
            }),
        );
        expect(reserved).toBeLessThanOrEqual(room);
        for (const [i, outcome] of (await Promise.all(outcomes)).entries()) {
          const { length, harm } = all[i] as Packed;
          if (typeof outcome === "string") continue;
          // What came out may be less than was packed only where the packing was harmed.
          expect(outcome.length).toBeLessThanOrEqual(LENGTH_MAX);
          if (harm === "none") expect(outcome.equals(Buffer.alloc(length, "a"))).toBe(true);
        }
        expect(unpacking.bytes).toBe(0);
      },
    ),
    { numRuns: runs(40) },
  );
});

test("small messages are unpacked by the hundred at once", async () => {
  const unpacking = new Unpacking(67_108_864);
  const message = Buffer.from("a request as they mostly are");
  const outcomes = await Promise.all(
    Array.from(
      { length: 900 },
      () =>
        new Promise<Buffer | Refusal>((resolve) => {
          const refusal = unpacking.unpack(gzipSync(message), "gzip", 4_194_304, resolve);
          if (refusal !== undefined) resolve(refusal);
        }),
    ),
  );
  expect(outcomes.every((outcome) => typeof outcome !== "string" && outcome.equals(message))).toBe(true);
});

test("a message that says it is longer than allowed is refused before it is unpacked", () => {
  const bomb = gzipSync(Buffer.alloc(LENGTH_MAX + 1));
  expect(new Unpacking(1_000_000_000).unpack(bomb, "gzip", LENGTH_MAX, () => undefined)).toBe("too long");
});
