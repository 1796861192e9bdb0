// Frames are cut the same however the bytes arrive, and a frame too long is refused by its head alone.

import { describe, expect, test } from "vitest";
import { FrameReader } from "../../../../src/grpc/transport/fast-lane/frame-reader.ts";
import { frameOf } from "../../../support/http2-peer.ts";

function readerInto(seen: string[], stopAfter = Number.POSITIVE_INFINITY): FrameReader {
  return new FrameReader({
    takeFrame(type, flags, streamId, bytes, start, end) {
      seen.push(`${type} ${flags} ${streamId} ${bytes.toString("latin1", start, end)}`);
      return seen.length < stopAfter;
    },
  });
}

const BYTES = Buffer.concat([
  frameOf(0, 1, 5, Buffer.from("hello")),
  frameOf(6, 0, 0),
  frameOf(1, 4, 0x7fff_ffff, Buffer.from("x")),
]);
const FRAMES = ["0 1 5 hello", "6 0 0 ", "1 4 2147483647 x"];

describe("frames", () => {
  test.each(Array.from({ length: BYTES.length }, (_, i) => ({ size: i + 1 })))(
    "in pieces of $size bytes",
    ({ size }) => {
      const seen: string[] = [];
      const reader = readerInto(seen);
      for (let at = 0; at < BYTES.length; at += size) reader.read(BYTES.subarray(at, at + size), 0);
      expect(seen).toEqual(FRAMES);
      expect(reader.isWithinFrame).toBe(false);
    },
  );

  test("are read from where the caller says", () => {
    const seen: string[] = [];
    readerInto(seen).read(Buffer.concat([Buffer.from("skip"), BYTES]), 4);
    expect(seen).toEqual(FRAMES);
  });

  test("after the one that stops the reading are not passed on", () => {
    const seen: string[] = [];
    readerInto(seen, 2).read(BYTES, 0);
    expect(seen).toEqual(FRAMES.slice(0, 2));
  });

  test("that have begun and not ended are told of", () => {
    const reader = readerInto([]);
    reader.read(BYTES.subarray(0, 4), 0);
    expect(reader.isWithinFrame).toBe(true);
    reader.read(BYTES.subarray(4, 12), 0);
    expect(reader.isWithinFrame).toBe(true);
  });

  test.each([{ pieces: 1 }, { pieces: 9 }])(
    "of more than 16 KiB are refused by their head, in $pieces pieces",
    ({ pieces }) => {
      const head = Buffer.from([0, 0x40, 1, 0, 0, 0, 0, 0, 1]);
      const reader = readerInto([]);
      const size = head.length / pieces;
      const read = () => {
        for (let at = 0; at < head.length; at += size) reader.read(head.subarray(at, at + size), 0);
      };
      expect(read).toThrow("a frame of 16385 bytes; expected at most 16384");
    },
  );
});
