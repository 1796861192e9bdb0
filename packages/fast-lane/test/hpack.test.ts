// Our HPACK against that of node:http2 (nghttp2), both ways and with tables that live over many blocks, and against
// itself where Node would refuse to send what the code allows.

import { once } from "node:events";
import { connect, type IncomingHttpHeaders } from "node:http2";
import type { Duplex } from "node:stream";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { duplexPair } from "../../../test/support/duplex-pair.ts";
import { runs } from "../../../test/support/runs.ts";
import { FrameReader } from "../src/frame-intake.ts";
import { HpackDecoder } from "../src/hpack/decoder.ts";
import { HpackEncoder } from "../src/hpack/encoder.ts";
import { HeaderList } from "../src/hpack/header-list.ts";
import { Flag, FrameType, PREFACE } from "../src/protocol.ts";
import { writeFrameHead } from "../src/sender.ts";

type Field = readonly [name: string, value: string];

const NAME_CHARS = [..."abcdefghijklmnopqrstuvwxyz0123456789-_."];
const name = fc.oneof(
  fc.constantFrom("accept", "user-agent", "grpc-timeout", "traceparent", "x-request-id", "content-encoding"),
  fc.string({ unit: fc.constantFrom(...NAME_CHARS), minLength: 1, maxLength: 24 }).map((text) => `x-${text}`),
);
const value = fc.oneof(
  fc.constantFrom("gzip, deflate", "", "100m", "identity"),
  fc.string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)), maxLength: 60 }),
);
const fields: fc.Arbitrary<Field[]> = fc
  .uniqueArray(fc.tuple(name, value), { selector: ([key]) => key, maxLength: 12 })
  .map((list) => list);
// Few fields, each so large that the table holds some fifteen of them: they come and go, and come again.
const crowded: fc.Arbitrary<Field[]> = fc
  .uniqueArray(fc.integer({ min: 0, max: 24 }), { minLength: 2, maxLength: 6 })
  .map((picks) => picks.map((pick): Field => [`x-large-${pick}`, String.fromCharCode(0x61 + pick).repeat(200)]));
const manyBlocks = fc.oneof(
  fc.array(fields, { minLength: 1, maxLength: 25 }),
  fc.array(crowded, { minLength: 10, maxLength: 25 }),
);

const oneByteText = fc.string({
  unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)),
  maxLength: 80,
});

function newDecoder(): HpackDecoder {
  return new HpackDecoder(65_536, Buffer.alloc(65_536));
}

function decoded(decoder: HpackDecoder, block: Buffer): Field[] {
  const list = new HeaderList();
  decoder.decode(block, 0, block.length, list);
  return list.names.slice(0, list.count).map((key, i) => [key, list.values[i] ?? ""]);
}

function encoded(encoder: HpackEncoder, block: readonly Field[]): Buffer {
  encoder.begin();
  for (const [key, text] of block) encoder.field(key, text);
  return Buffer.from(encoder.end());
}

function frame(type: number, flags: number, id: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9);
  writeFrameHead(head, 0, payload.length, type, flags, id);
  return Buffer.concat([head, payload]);
}

/** The least of a server: decodes each request by our decoder, answers with `answers` by our encoder. */
function serveBy(end: Duplex, answers: readonly (readonly Field[])[], seen: Field[][]): void {
  const decoder = newDecoder();
  const encoder = new HpackEncoder(() => true);
  let skip = PREFACE.length;
  const reader = new FrameReader({
    takeFrame(type, flags, id, bytes, start, stop) {
      if (type === FrameType.settings && (flags & Flag.ack) === 0)
        end.write(frame(FrameType.settings, Flag.ack, 0, Buffer.alloc(0)));
      if (type !== FrameType.headers) return true;
      const from = flags & Flag.priority ? start + 5 : start;
      seen.push(decoded(decoder, bytes.subarray(from, stop)));
      const block = encoded(encoder, [[":status", "200"], ...(answers[seen.length - 1] ?? [])]);
      end.write(frame(FrameType.headers, Flag.endHeaders | Flag.endStream, id, block));
      return true;
    },
  });
  end.write(frame(FrameType.settings, 0, 0, Buffer.alloc(0)));
  end.on("data", (chunk: Buffer) => {
    const from = Math.min(skip, chunk.length);
    skip -= from;
    if (from < chunk.length) reader.read(chunk, from);
  });
}

/** Sends blocks through Node's client to our decoder and back through our encoder to Node. */
async function exchange(blocks: readonly (readonly Field[])[]): Promise<{ sent: Field[][]; returned: Field[][] }> {
  const [near, far] = duplexPair();
  const sent: Field[][] = [];
  serveBy(far, blocks, sent);
  const session = connect("http://peer.invalid", { createConnection: () => near });
  const returned: Field[][] = [];
  for (const block of blocks) {
    const stream = session.request(
      { ":method": "POST", ":path": "/", ...Object.fromEntries(block) },
      { endStream: true },
    );
    const [headers] = (await once(stream, "response")) as [IncomingHttpHeaders];
    returned.push(Object.entries(headers).map(([key, text]): Field => [key, String(text)]));
    stream.close();
  }
  session.destroy();
  return { sent, returned };
}

const withoutPseudo = (list: readonly Field[]) => new Map(list.filter(([key]) => !key.startsWith(":")));

describe("HPACK and nghttp2", () => {
  test("read each other's blocks, whatever went before on the connection", async () => {
    await fc.assert(
      fc.asyncProperty(manyBlocks, async (blocks) => {
        const { sent, returned } = await exchange(blocks);
        expect(sent.map(withoutPseudo)).toEqual(blocks.map(withoutPseudo));
        expect(returned.map(withoutPseudo)).toEqual(blocks.map(withoutPseudo));
      }),
      { numRuns: runs(40) },
    );
  });

  test("agree on the Huffman code of every byte that a field may have", async () => {
    // nghttp2 codes text that gets shorter by it; an "e" has five bits.
    const bytes = Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => byte > 0x20 && byte !== 0x7f);
    const text = bytes.map((byte) => "e".repeat(10) + String.fromCharCode(byte)).join("");
    const { sent } = await exchange([[["x-all", text]]]);
    expect(sent.map(withoutPseudo)).toEqual([new Map([["x-all", text]])]);
  });
});

describe("HPACK", () => {
  test("gives back every block it wrote, for any table size the peer allows on the way", () => {
    const step = fc.record({
      block: fc.array(fc.tuple(oneByteText, oneByteText), { maxLength: 8 }),
      sizes: fc.array(fc.integer({ min: 0, max: 8_192 }), { maxLength: 2 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), fc.func(fc.boolean()), (steps, mayIndex) => {
        const encoder = new HpackEncoder(mayIndex);
        const decoder = newDecoder();
        for (const { block, sizes } of steps) {
          for (const size of sizes) encoder.allowTableSize(size);
          expect(decoded(decoder, encoded(encoder, block))).toEqual(block);
        }
      }),
      { numRuns: runs(150) },
    );
  });

  test("says of a block that it may be sent again only if a second decoding gives the same", () => {
    fc.assert(
      fc.property(fields, (block) => {
        const encoder = new HpackEncoder();
        const decoder = newDecoder();
        decoded(decoder, encoded(encoder, block));
        const again = encoded(encoder, block);
        expect(encoder.isRepeatable).toBe(true);
        expect(decoded(decoder, again)).toEqual(block);
        expect(decoded(decoder, again)).toEqual(block);
      }),
      { numRuns: runs(100) },
    );
  });

  test("never takes bytes that mean nothing for fields, nor fails other than by a ConnectionError", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 5 }), (blocks) => {
        const decoder = newDecoder();
        let outcome: unknown;
        try {
          for (const block of blocks) decoded(decoder, Buffer.from(block));
        } catch (error) {
          outcome = error;
        }
        expect(outcome === undefined || (outcome as Error).name === "ConnectionError").toBe(true);
      }),
      { numRuns: runs(500) },
    );
  });
});
