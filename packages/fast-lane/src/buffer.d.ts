// A method of Buffer that every Node.js has and @types/node leaves out: `toString` for "latin1" without the dispatch on
// the encoding.

interface Buffer {
  latin1Slice(start: number, end: number): string;
}
