// What every Node.js has and its types leave out: `toString("latin1")` without its dispatch on the encoding, for the hot path.

interface Buffer {
  latin1Slice(start: number, end: number): string;
}
