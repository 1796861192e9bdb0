// Long texts made piece by piece, with a turn for other work between the pieces: calls must not wait for a page.

import { setImmediate as nextTurn } from "node:timers/promises";

/** Length of a piece in characters; making one takes well under a millisecond. */
const PIECE_LENGTH = 32_768;

/** Joins lines to pieces of some length and lets other work have its turn after each. */
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
