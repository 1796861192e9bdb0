// Makes long texts in pieces, so that no call waits for a whole page: who sends them lets other work run in between.

/** Length of a piece in characters; a piece is made in well under a millisecond. */
const PIECE_LENGTH = 32_768;

/** Joins lines to pieces of at least PIECE_LENGTH characters. */
export function* joinInPieces(lines: Iterable<string>): Generator<string> {
  let piece = "";
  for (const line of lines) {
    piece += line;
    if (piece.length < PIECE_LENGTH) continue;
    yield piece;
    piece = "";
  }
  if (piece !== "") yield piece;
}
