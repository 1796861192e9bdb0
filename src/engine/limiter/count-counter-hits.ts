// Adds the take of a counter to the stats of its rule, by the count before and after it. This is the reference service's
// arithmetic, hit for hit (test/vectors). Hits that were not charged are counted too.

import { Mode, type Take } from "../domain/take.ts";

/** Counts one take of mode charge or denied. `isShadowRule`: the rule itself is in shadow mode, not the whole service. */
export function countCounterHits(take: Take, isShadowRule: boolean, nearLimitRatio: number): void {
  const { stats, cost, counted } = take;
  const amount = take.limit.amount;
  if (take.mode === Mode.denied) {
    stats.overLimit += cost;
    stats.overLimitWithLocalCache += cost;
    if (isShadowRule) stats.shadowMode += cost;
    return;
  }
  // The reference subtracts unsigned numbers: if uncharged hits exceed the count, the result is huge.
  const before = counted >= cost ? counted - cost : Number.POSITIVE_INFINITY;
  const near = nearThreshold(amount, nearLimitRatio);
  if (counted <= amount) {
    stats.withinLimit += cost;
    if (counted > near) stats.nearLimit += before >= near ? cost : counted - near;
    return;
  }
  const isWhollyOver = before >= amount;
  stats.overLimit += isWhollyOver ? cost : counted - amount;
  if (!isWhollyOver) stats.nearLimit += amount - Math.max(near, before);
  if (isShadowRule) stats.shadowMode += isWhollyOver ? cost : counted - amount;
}

/** The count above which hits are near the limit. Single precision, because the reference service computes it so. */
function nearThreshold(amount: number, ratio: number): number {
  return Math.floor(Math.fround(Math.fround(amount) * Math.fround(ratio)));
}
