// What the rewriter makes of a client's bytes: any fields in any form of HPACK, frames, padding, CONTINUATIONs and pieces. Our strict decoder
// reads the bytes before and after; only authorities that nghttp2 refuses differ, and none of the lengths.

import fc from "fast-check";
import { expect, test } from "vitest";
import { HpackDecoder } from "../../packages/fast-lane/src/hpack/decoder.ts";
import { HeaderList } from "../../packages/fast-lane/src/hpack/header-list.ts";
import { Flag, FrameType, PREFACE } from "../../packages/fast-lane/src/protocol.ts";
import { AuthorityRewriter, HELD_BYTES_MAX } from "../../src/grpc/transport/grpc-js-authorities.ts";
import { type Field, frameOf } from "../support/http2-peer.ts";
import { runs } from "../support/runs.ts";

// Code lengths of NUL and of the printable characters from the blank on (RFC 7541, appendix B): the code is canonical.
const CODE_BITS =
  "13 6 10 10 12 13 6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10 13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 8 7 8 " +
  "13 19 13 14 6 15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13";
const codes = new Map<string, string>();
const lengths = CODE_BITS.split(" ").map(Number);
for (let bits = 1, code = 0; bits <= 19; bits++, code *= 2) {
  for (const [i, length] of lengths.entries()) {
    if (length === bits)
      codes.set(i === 0 ? "\0" : String.fromCharCode(0x1f + i), (code++).toString(2).padStart(bits, "0"));
  }
}

function huffman(text: string): Buffer {
  const bits = [...text].map((char) => codes.get(char) ?? "").join("");
  const whole = bits.padEnd(Math.ceil(bits.length / 8) * 8, "1");
  return Buffer.from(
    Array.from({ length: whole.length / 8 }, (_, i) => Number.parseInt(whole.slice(8 * i, 8 * i + 8), 2)),
  );
}

function integer(value: number, prefix: number, flags: number): number[] {
  const max = 2 ** prefix - 1;
  if (value < max) return [flags | value];
  const bytes = [flags | max];
  let rest = value - max;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push(0x80 | (rest & 0x7f));
  return [...bytes, rest];
}

function string(text: string, isCoded: boolean): Buffer {
  const bytes = isCoded ? huffman(text) : Buffer.from(text, "latin1");
  return Buffer.concat([Buffer.from(integer(bytes.length, 7, isCoded ? 0x80 : 0)), bytes]);
}

const STATIC: Readonly<Record<string, number>> = { ":authority": 1, ":path": 4, host: 38, via: 60 };
const FORMS = [
  { prefix: 6, flags: 0x40 },
  { prefix: 4, flags: 0x10 },
  { prefix: 4, flags: 0 },
] as const;

const printable = fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code));
const odd = fc.constantFrom(...'|/{}\\^`<>#?"');
const text = fc.oneof(
  fc.constantFrom(
    "outbound|8081||headgate.ns.svc.cluster.local",
    "outbound|8081|v1|a_b",
    "a",
    "",
    "a_b:8081",
    "[::1]:8081",
  ),
  fc.string({ unit: fc.oneof(printable, odd), maxLength: 40 }),
  fc.string({ unit: odd, maxLength: 12 }),
  fc.string({ unit: fc.constantFrom(..."|a"), minLength: 200, maxLength: 500 }),
);
const literal = fc.record({
  name: fc.constantFrom(":authority", ":authority", "host", ":path", "via", "x-any"),
  text,
  form: fc.constantFrom(...FORMS),
  isNameText: fc.boolean(),
  isNameCoded: fc.boolean(),
  isCoded: fc.boolean(),
});
const field = fc.oneof(
  { weight: 3, arbitrary: literal },
  fc.record({ entry: fc.nat(20) }),
  fc.record({ size: fc.nat(4_096) }),
);
type Made = typeof field extends fc.Arbitrary<infer T> ? T : never;

const block = fc.record({
  fields: fc.array(field, { maxLength: 5 }),
  cuts: fc.array(fc.nat(200), { maxLength: 3 }),
  padding: fc.option(fc.nat(255), { nil: undefined }),
  hasPriority: fc.boolean(),
  body: fc.nat(40),
});

/** Writes blocks of one connection, each as it is named. */
class BlockWriter {
  #sizes: number[] = [];
  #max = 4_096;

  write(fields: readonly Made[]): Buffer {
    const sizes = fields.flatMap((one) => ("size" in one ? [one.size] : []));
    const rest = fields.filter((one) => !("size" in one));
    return Buffer.concat([
      ...sizes.slice(0, 2).map((size) => this.#resize(size)),
      ...rest.map((one) =>
        "entry" in one ? this.#entry(one.entry) : "form" in one ? this.#literal(one) : Buffer.alloc(0),
      ),
    ]);
  }

  #resize(size: number): Buffer {
    this.#max = size;
    this.#evict();
    return Buffer.from(integer(size, 5, 0x20));
  }

  #entry(at: number): Buffer {
    const count = this.#sizes.length;
    return Buffer.from(integer(count === 0 ? 2 : 62 + (at % count), 7, 0x80));
  }

  #literal({
    name,
    text,
    form,
    isNameText,
    isNameCoded,
    isCoded,
  }: typeof literal extends fc.Arbitrary<infer T> ? T : never): Buffer {
    const index = STATIC[name];
    const isByIndex = index !== undefined && !isNameText;
    if (form.flags === 0x40) {
      this.#sizes.unshift(name.length + text.length + 32);
      this.#evict();
    }
    return Buffer.concat([
      Buffer.from(integer(isByIndex ? index : 0, form.prefix, form.flags)),
      isByIndex ? Buffer.alloc(0) : string(name, isNameCoded),
      string(text, isCoded),
    ]);
  }

  #evict(): void {
    let sum = 0;
    this.#sizes = this.#sizes.filter((size) => {
      sum += size;
      return sum <= this.#max;
    });
  }
}

function framesOf(
  bytes: Buffer,
  { cuts, padding, hasPriority, body }: typeof block extends fc.Arbitrary<infer T> ? T : never,
): Buffer {
  const ends = [...cuts.map((cut) => Math.min(cut, bytes.length)), bytes.length].sort((a, b) => a - b);
  const parts = ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end));
  const last = parts.length - 1;
  const frames = parts.map((part, i) => {
    const endFlag = i === last ? Flag.endHeaders : 0;
    if (i > 0) return frameOf(FrameType.continuation, endFlag, 1, part);
    const flags = endFlag | (padding === undefined ? 0 : Flag.padded) | (hasPriority ? Flag.priority : 0);
    return frameOf(
      FrameType.headers,
      flags,
      1,
      Buffer.concat([
        Buffer.from(padding === undefined ? [] : [padding]),
        Buffer.alloc(hasPriority ? 5 : 0),
        part,
        Buffer.alloc(padding ?? 0),
      ]),
    );
  });
  return Buffer.concat([...frames, frameOf(FrameType.data, 0, 1, Buffer.alloc(body, 1))]);
}

/** The fields of all blocks. */
function read(bytes: Buffer): Field[][] {
  const decoder = new HpackDecoder(65_536, Buffer.alloc(65_536));
  const blocks: Field[][] = [];
  let parts: Buffer[] = [];
  for (let at = PREFACE.length; at < bytes.length; ) {
    const end = at + 9 + bytes.readUIntBE(at, 3);
    const type = bytes[at + 3];
    const flags = bytes.readUInt8(at + 4);
    const payload = bytes.subarray(at + 9, end);
    const isPadded = type === FrameType.headers && (flags & Flag.padded) !== 0;
    const from = (isPadded ? 1 : 0) + (type === FrameType.headers && (flags & Flag.priority) !== 0 ? 5 : 0);
    if (type !== FrameType.data)
      parts.push(payload.subarray(from, payload.length - (isPadded ? payload.readUInt8(0) : 0)));
    if (type !== FrameType.data && (flags & Flag.endHeaders) !== 0) {
      const list = new HeaderList();
      const whole = Buffer.concat(parts);
      decoder.decode(whole, 0, whole.length, list);
      blocks.push(list.names.slice(0, list.count).map((name, i): Field => [name, list.values[i] ?? ""]));
      parts = [];
    }
    at = end;
  }
  return blocks;
}

function rewritten(bytes: Buffer, pieces: readonly number[]): Buffer {
  const rewriter = new AuthorityRewriter();
  const out: Buffer[] = [];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = pieces[i % pieces.length] ?? bytes.length;
    out.push(Buffer.from(rewriter.rewrite(Buffer.from(bytes.subarray(at, at + size)))));
    at += size;
  }
  return Buffer.concat(out);
}

const isRefused = ([name, value]: Field): boolean =>
  (name === ":authority" || name === "host") && /["#/<>?@\\^`{|}]/.test(value) && !value.includes(" ");
/** A Huffman code of more than 13 bits a character is left alone. */
const isLeft = (value: string): boolean => huffman(value).length > value.length + Math.ceil((5 * value.length) / 8);

test("what a client says stays the same but for authorities that nghttp2 refuses, in any form and pieces", () => {
  fc.assert(
    fc.property(
      fc.array(block, { minLength: 1, maxLength: 6 }),
      fc.array(fc.integer({ min: 1, max: 300 }), { maxLength: 6 }),
      (blocks, pieces) => {
        const writer = new BlockWriter();
        const bytes = Buffer.concat([PREFACE, ...blocks.map((one) => framesOf(writer.write(one.fields), one))]);
        const after = rewritten(bytes, pieces);
        expect(after).toHaveLength(bytes.length);
        const was = read(bytes).flat();
        const is = read(after).flat();
        expect(is.map(([name, value]) => [name, value.length])).toEqual(
          was.map(([name, value]) => [name, value.length]),
        );
        for (const [i, one] of was.entries()) {
          const now = is[i]?.[1] ?? "";
          const stays = now === one[1] && (!isRefused(one) || isLeft(one[1]));
          expect(stays || (isRefused(one) && /^[a~]+$/.test(now)), `${one} became ${now}`).toBe(true);
        }
      },
    ),
    { numRuns: runs(3_000) },
  );
});

test("no bytes that are no HTTP/2 change their length, and little is held back", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.uint8Array({ maxLength: 40 }),
          fc
            .tuple(
              fc.constantFrom(1, 1, 9, 0),
              fc.integer({ min: 0, max: 255 }),
              fc.uint8Array({ maxLength: 60 }),
              fc.nat(40_000),
            )
            .map(([type, flags, payload, more]) => {
              const frame = frameOf(type, flags, 1, payload);
              frame.writeUIntBE(payload.length + (more % 7 === 0 ? more : 0), 0, 3);
              return frame;
            }),
        ),
        { maxLength: 60 },
      ),
      (pieces) => {
        const rewriter = new AuthorityRewriter();
        let held = 0;
        for (const piece of [PREFACE, ...pieces]) {
          held += piece.length - rewriter.rewrite(Buffer.from(piece)).length;
          expect(held).toBeLessThanOrEqual(HELD_BYTES_MAX + 9);
          expect(held).toBeGreaterThanOrEqual(0);
        }
      },
    ),
    { numRuns: runs(3_000) },
  );
});
