// What every Node.js has and its types leave out: `toString` and `write` for "latin1" without their dispatch on the encoding,
// for the hot path.

interface Buffer {
  latin1Slice(start: number, end: number): string;
  latin1Write(text: string, at: number, length: number): number;
}
