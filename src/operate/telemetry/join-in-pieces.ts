// Makes long texts in pieces, with a turn of the event loop between them, so that no call waits for a whole page.

import { setImmediate as nextTurn } from "node:timers/promises";

/** Length of a piece in characters; a piece is made in well under a millisecond. */
const PIECE_LENGTH = 32_768;

/** Joins lines to pieces of at least PIECE_LENGTH characters; other work runs after each piece. */
export async function* joinInPieces(lines: Iterable<string>): AsyncGenerator<string> {
  let piece = "";
  for (const line of lines) {
    piece += line;
    if (piece.length < PIECE_LENGTH) continue;
    yield piece;
    piece = "";
    await nextTurn();
  }
  if (piece !== "") yield piece;
}
