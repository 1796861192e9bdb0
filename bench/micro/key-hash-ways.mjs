// Keyed hashes that could stand in the place of bucket keys, for key-hash.mjs to compare. Each reads `length` bytes from
// word `at` on, zeros behind them, and writes what it finds into `into`. Their keys are constants here: it is their time
// that counts.

const K0 = 0x243f6a88;
const K1 = 0x85a308d3 | 0;
const K2 = 0x13198a2e;
const K3 = 0x03707344;

/** HalfSipHash-1-3, 32 bits. */
function half32(words, at, length, into) {
  let v0 = K0;
  let v1 = K1;
  let v2 = 0x6c796765 ^ K0;
  let v3 = 0x74656462 ^ K1;
  const last = at + ((length + 3) >>> 2);
  for (let i = at; i <= last + 3; i++) {
    const word = i < last ? words[i] : i === last ? length : 0;
    if (i === last + 1) v2 ^= 0xff;
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    v0 ^= word;
  }
  into.keyHash = (v1 ^ v3) >>> 0;
}

/** Two HalfSipHash-1-3 with 64 bits each, under different keys, round by round beside each other. */
function halfTwice(words, at, length, into) {
  let v0 = K0;
  let v1 = K1 ^ 0xee;
  let v2 = 0x6c796765 ^ K0;
  let v3 = 0x74656462 ^ K1;
  let w0 = K2;
  let w1 = K3 ^ 0xee;
  let w2 = 0x6c796765 ^ K2;
  let w3 = 0x74656462 ^ K3;
  const last = at + ((length + 3) >>> 2);
  for (let i = at; i <= last + 6; i++) {
    const word = i < last ? words[i] : i === last ? length : 0;
    if (i === last + 1) {
      v2 ^= 0xee;
      w2 ^= 0xee;
    } else if (i === last + 4) {
      into.keyHash = (v1 ^ v3) >>> 0;
      into.keyHash1 = w1 ^ w3;
      v1 ^= 0xdd;
      w1 ^= 0xdd;
    }
    v3 ^= word;
    w3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    w0 = (w0 + w1) | 0;
    w1 = ((w1 << 5) | (w1 >>> 27)) ^ w0;
    w0 = (w0 << 16) | (w0 >>> 16);
    w2 = (w2 + w3) | 0;
    w3 = ((w3 << 8) | (w3 >>> 24)) ^ w2;
    w0 = (w0 + w3) | 0;
    w3 = ((w3 << 7) | (w3 >>> 25)) ^ w0;
    w2 = (w2 + w1) | 0;
    w1 = ((w1 << 13) | (w1 >>> 19)) ^ w2;
    w2 = (w2 << 16) | (w2 >>> 16);
    v0 ^= word;
    w0 ^= word;
  }
  into.keyHash2 = v1 ^ v3;
  into.keyHash3 = w1 ^ w3;
}

/** Chaskey with that many rounds; 12 are the standard's. */
function chaskey(rounds) {
  return (words, at, length, into) => {
    const end = at + ((length + 3) >>> 2);
    let v0 = K0 ^ length;
    let v1 = K1;
    let v2 = K2;
    let v3 = K3;
    let i = at;
    do {
      v0 ^= i < end ? words[i] : 0;
      v1 ^= i + 1 < end ? words[i + 1] : 0;
      v2 ^= i + 2 < end ? words[i + 2] : 0;
      v3 ^= i + 3 < end ? words[i + 3] : 0;
      i += 4;
      for (let round = 0; round < rounds; round++) {
        v0 = (v0 + v1) | 0;
        v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
        v0 = (v0 << 16) | (v0 >>> 16);
        v2 = (v2 + v3) | 0;
        v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
        v0 = (v0 + v3) | 0;
        v3 = ((v3 << 13) | (v3 >>> 19)) ^ v0;
        v2 = (v2 + v1) | 0;
        v1 = ((v1 << 7) | (v1 >>> 25)) ^ v2;
        v2 = (v2 << 16) | (v2 >>> 16);
      }
    } while (i < end);
    into.keyHash = (v0 ^ K0) >>> 0;
    into.keyHash1 = v1 ^ K1;
    into.keyHash2 = v2 ^ K2;
    into.keyHash3 = v3 ^ K3;
  };
}

export const WAYS = {
  "HalfSipHash-1-3, 32 bits, as before": half32,
  "two HalfSipHash-1-3": halfTwice,
  "Chaskey-8": chaskey(8),
  "Chaskey-12": chaskey(12),
};
