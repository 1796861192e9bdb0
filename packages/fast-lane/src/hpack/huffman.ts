// The Huffman code of HPACK (RFC 7541, appendix B), which peers may use; we send plain text. The code is canonical:
// codes ascend by length and, for equal lengths, by symbol, so their lengths define them completely.

/** Bits of each byte's code. The end-of-string symbol, number 256, has 30; it is never sent. */
const CODE_BITS =
  "13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28 " +
  "6 10 10 12 13 6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10 " +
  "13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6 " +
  "15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28 " +
  "20 22 20 20 22 22 22 23 22 23 23 23 23 23 24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24 " +
  "22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23 " +
  "26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27 " +
  "20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26 " +
  "30";

const END_OF_STRING = 256;
const NIBBLES = 16;
/** Flags of a decoder step; the emitted byte is in its low 8 bits, the next state above them. */
const EMITS = 1 << 16;
const FAILS = 1 << 17;
const STATE_SHIFT = 8;

const bitsOf = Uint8Array.from(CODE_BITS.split(" "), Number);
const codeOf = canonicalCodes();
const decoder = buildDecoder();

/** Most bytes that `length` bytes of Huffman code can decode to: the shortest code has 5 bits. */
export function huffmanTextMax(length: number): number {
  return Math.floor((length * 8) / 5);
}

/**
 * Decodes Huffman code from `start` to `end` into `into`, which must have room for `huffmanTextMax` bytes. Returns the
 * number of decoded bytes, or -1 for invalid code: an end-of-string symbol, or padding that is too long or not all
 * ones.
 */
export function decodeHuffman(from: Uint8Array, start: number, end: number, into: Uint8Array): number {
  let state = 0;
  let length = 0;
  for (let i = start; i < end; i++) {
    const byte = from[i] as number;
    let step = decoder.steps[(state << 4) | (byte >>> 4)] as number;
    if (step & EMITS) into[length++] = step;
    let failed = step & FAILS;
    state = (step >>> STATE_SHIFT) & 0xff;
    step = decoder.steps[(state << 4) | (byte & 15)] as number;
    if (step & EMITS) into[length++] = step;
    failed |= step & FAILS;
    if (failed) return -1;
    state = (step >>> STATE_SHIFT) & 0xff;
  }
  return decoder.isEnd[state] === 1 ? length : -1;
}

function canonicalCodes(): Uint32Array {
  const codes = new Uint32Array(END_OF_STRING + 1);
  let code = 0;
  for (let bits = 1; bits <= 30; bits++) {
    for (let symbol = 0; symbol <= END_OF_STRING; symbol++) if (bitsOf[symbol] === bits) codes[symbol] = code++;
    code *= 2;
  }
  return codes;
}

// The code's tree has 256 inner nodes, which are the decoder's states. A step reads four bits and passes at most one
// leaf, because no code is shorter than five bits.
function buildDecoder(): { steps: Uint32Array; isEnd: Uint8Array } {
  const children: [number, number][] = [[0, 0]];
  for (let symbol = 0; symbol <= END_OF_STRING; symbol++) insertCode(children, symbol);
  const steps = new Uint32Array(children.length * NIBBLES);
  for (let state = 0; state < children.length; state++) {
    for (let nibble = 0; nibble < NIBBLES; nibble++) steps[state * NIBBLES + nibble] = stepOf(children, state, nibble);
  }
  // Valid padding is up to seven ones, so these states are those reached from the root by ones.
  const isEnd = new Uint8Array(children.length);
  for (let state = 0, ones = 0; ones <= 7; ones++) {
    isEnd[state] = 1;
    state = (children[state] as [number, number])[1];
  }
  return { steps, isEnd };
}

// Inner nodes are positive numbers, leaves are -1 - symbol, and 0 is a child that does not exist yet.
function insertCode(children: [number, number][], symbol: number): void {
  const bits = bitsOf[symbol] as number;
  const code = codeOf[symbol] as number;
  let node = 0;
  for (let bit = bits - 1; bit >= 0; bit--) {
    const pair = children[node] as [number, number];
    const side = (code >>> bit) & 1;
    if (bit === 0) pair[side] = -1 - symbol;
    else if (pair[side] === 0) {
      children.push([0, 0]);
      pair[side] = children.length - 1;
    }
    node = pair[side] as number;
  }
}

function stepOf(children: readonly [number, number][], state: number, nibble: number): number {
  let node = state;
  let found = 0;
  for (let bit = 3; bit >= 0; bit--) {
    node = (children[node] as [number, number])[(nibble >>> bit) & 1] as number;
    if (node >= 0) continue;
    const symbol = -1 - node;
    if (symbol === END_OF_STRING) return FAILS;
    found = EMITS | symbol;
    node = 0;
  }
  return found | (node << STATE_SHIFT);
}
