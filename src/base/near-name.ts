// Finds the name that a misspelt name probably means.

/** Longer names are not compared: comparing takes time in the product of both lengths. */
const NAME_LENGTH_MAX = 40;

/**
 * The candidate nearest to `name`, or undefined if none is near: at most one edit for names of up to four letters, two
 * for up to nine, three for up to 40 (see `editsBetween`), none for longer ones. Case does not count. Of equally near
 * ones the first wins.
 */
export function nearestName(name: string, candidates: Iterable<string>): string | undefined {
  const editsMax = name.length <= 4 ? 1 : name.length <= 9 ? 2 : 3;
  let best: string | undefined;
  let bestEdits = editsMax + 1;
  if (name.length > NAME_LENGTH_MAX) return undefined;
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - name.length) >= bestEdits) continue;
    const edits = editsBetween(name.toLowerCase(), candidate.toLowerCase());
    if (edits < bestEdits) {
      best = candidate;
      bestEdits = edits;
    }
  }
  return best;
}

/** The name without case and separators: tokensPerSecond and tokens_per_second fold to the same. */
export function foldName(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, "");
}

/**
 * The optimal string alignment distance: fewest insertions, deletions, replacements and swaps of neighbouring letters.
 */
export function editsBetween(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, i) => i);
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const same = from[i - 1] === to[j - 1];
      let edits = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (same ? 0 : 1));
      if (i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]) {
        edits = Math.min(edits, (beforeLast[j - 2] ?? 0) + 1);
      }
      row.push(edits);
    }
    beforeLast = last;
    last = row;
  }
  return last[to.length] ?? 0;
}
