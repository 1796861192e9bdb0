// Methods of Buffer that every Node.js has and @types/node leaves out. They are `toString` and `write` for "latin1"
// without the dispatch on the encoding, which the hot path saves.

interface Buffer {
  latin1Slice(start: number, end: number): string;
  latin1Write(text: string, at: number, length: number): number;
}
