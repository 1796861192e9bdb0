// What a limit has to hold, whatever is settled when.

const SECOND_US = 1_000_000;

/** What a request used, and when it was let in. */
export interface Use {
  readonly atUs: number;
  readonly used: number;
}

/** By how much use exceeds burst + rate x t in the worst stretch of time; at most 0 if the limit held. */
export function overspent(uses: readonly Use[], burst: number, perSecond: number): number {
  const inOrder = uses.toSorted((one, other) => one.atUs - other.atUs);
  let worst = Number.NEGATIVE_INFINITY;
  for (let first = 0; first < inOrder.length; first++) {
    let sum = 0;
    for (let last = first; last < inOrder.length; last++) {
      sum += inOrder[last]?.used ?? 0;
      const seconds = ((inOrder[last]?.atUs ?? 0) - (inOrder[first]?.atUs ?? 0)) / SECOND_US;
      worst = Math.max(worst, sum - burst - perSecond * seconds);
    }
  }
  return worst;
}
