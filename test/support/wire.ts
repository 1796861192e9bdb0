// Builds protocol buffer messages field by field, as odd as a test wants them: any order, repeated, unknown, damaged.

/** A varint of up to 64 bits. */
export function varint(value: bigint | number): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  while (rest >= 0x80n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

export function tag(field: number, wireType: number): Buffer {
  return varint(field * 8 + wireType);
}

export function varintField(field: number, value: bigint | number): Buffer {
  return Buffer.concat([tag(field, 0), varint(value)]);
}

/** Text, bytes or an embedded message. */
export function bytesField(field: number, content: string | Uint8Array): Buffer {
  const bytes = typeof content === "string" ? Buffer.from(content, "utf8") : content;
  return Buffer.concat([tag(field, 2), varint(bytes.length), bytes]);
}

/** A group, which proto3 does not have. */
export function groupField(field: number, content: Uint8Array): Buffer {
  return Buffer.concat([tag(field, 3), content, tag(field, 4)]);
}

export function fixedField(field: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([tag(field, bytes.length === 8 ? 1 : 5), bytes]);
}

/** Fields that no message of proto/ has, of every type that a field may have. */
export const UNKNOWN_FIELDS = Buffer.concat([
  varintField(15, 2n ** 64n - 1n),
  bytesField(16, "new"),
  fixedField(1_000, Buffer.alloc(8)),
  fixedField(536_870_911, Buffer.alloc(4)),
]);
