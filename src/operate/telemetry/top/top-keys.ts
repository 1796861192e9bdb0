// Who asks and who is refused, over all rules, in the last minute and the last hour. Takes are counted in parts of ten
// seconds. A part that ends is added to both windows; a part of the hour is ten minutes. A key is a bucket: one caller
// under one limit. Bounds and reasons: docs/decisions/0023-top-keys.md.

import { MICROS_PER_SECOND } from "../../../base/units.ts";
import { KeyBytes, Keyed } from "../../../engine/domain/key-bytes.ts";
import type { Limit } from "../../../engine/domain/limit.ts";
import type { LimitStats } from "../../../engine/domain/stats.ts";
import { canRefuseCall, isOver, Kind, Mode, type Take } from "../../../engine/domain/take.ts";
import type { LimitCall } from "../../../engine/limiter/call.ts";
import type { CallListener } from "../../../engine/limiter/limiter-observer.ts";
import type { RuleLabels } from "../stats-book.ts";
import { keyTextOf, nameOfCounter } from "./key-text.ts";
import { type Part, releasePart, WindowParts } from "./parts.ts";
import { Sketch } from "./sketch.ts";
import { type TrackedKey, TrackedKeys } from "./tracked-keys.ts";

/** Ended parts of a window before the current one. So a window covers its length, and up to one part more. */
const PARTS = 6;

/** The windows and their lengths in seconds. */
export const TOP_WINDOWS = { minute: 60, hour: 3_600 } as const;
export type TopWindow = keyof typeof TOP_WINDOWS;

/** Marks the keys of callers who borrow, in the label of the limit. */
const BORROWED_LABEL = "borrowed";

interface TopKeysOptions {
  /** Slots for keys that passed, and as many for keys that were refused (TOP_KEYS). */
  readonly keysMax: number;
  readonly nowUs: number;
  /** The names of a limit in the metrics' labels; undefined if a reload has dropped the limit. */
  readonly labelsOf: (stats: LimitStats) => RuleLabels | undefined;
}

export class TopKeys implements CallListener {
  readonly #labelsOf: TopKeysOptions["labelsOf"];
  /** When this process began to count. */
  readonly #beganUs: number;
  readonly #keys = new TrackedKeys();
  readonly #passed: Sketch<TrackedKey>;
  readonly #refused: Sketch<TrackedKey>;
  readonly #windows: Readonly<Record<TopWindow, WindowParts>>;
  #partEndUs: number;
  readonly #counterKey = new Keyed(new KeyBytes());

  constructor({ keysMax, nowUs, labelsOf }: TopKeysOptions) {
    this.#labelsOf = labelsOf;
    this.#beganUs = nowUs;
    const release = (key: TrackedKey) => this.#keys.release(key);
    this.#passed = new Sketch(keysMax, release);
    this.#refused = new Sketch(keysMax, release);
    const windowOf = (seconds: number) => {
      const partUs = (seconds * MICROS_PER_SECOND) / PARTS;
      return new WindowParts({ partUs, partsMax: PARTS, keysMax, nowUs, keys: this.#keys });
    };
    this.#windows = { minute: windowOf(TOP_WINDOWS.minute), hour: windowOf(TOP_WINDOWS.hour) };
    this.#partEndUs = this.#windows.minute.endUs;
  }

  /** Number of keys whose text is kept. */
  get trackedKeys(): number {
    return this.#keys.size;
  }

  /**
   * Counts each take of a decided call that can refuse the call. If the clock steps back, the take counts in the
   * present part.
   */
  decided(call: LimitCall, nowUs: number): void {
    if (nowUs >= this.#partEndUs) this.#endPart(nowUs);
    const { group } = call;
    const isRefused = call.decision.overLimit;
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (!canRefuseCall(take) && !isBorrowing(take)) continue;
      const key = take.limit.isCounter ? this.#withoutWindow(take) : take;
      // A guarantee that does not cover its call shows who borrows, and who finds nothing to borrow.
      const judged = take.mode === Mode.guarantee ? (group.takes[i + 1] as Take) : take;
      const isOverHere = isRefused && isOver(judged) && take.kind !== Kind.shadow;
      const sketch = isOverHere ? this.#refused : this.#passed;
      const slot = sketch.add(key);
      if (slot < 0) continue;
      if (sketch.named[slot] === undefined) this.#name(sketch, slot, key, take, call);
      if (isOverHere) sketch.named[slot]?.noteRefused(nowUs);
    }
  }

  /** The parts of a window. They contain all takes since `fromUs`, and none before. */
  partsOf(window: TopWindow, nowUs: number): { readonly parts: readonly Part[]; readonly fromUs: number } {
    if (nowUs >= this.#partEndUs) this.#endPart(nowUs);
    const { parts, fromUs } = this.#windows[window];
    return { parts: [...parts, this.#partInHand()], fromUs: Math.max(fromUs, this.#beganUs) };
  }

  #name(sketch: Sketch<TrackedKey>, slot: number, key: Keyed, take: Take, call: LimitCall): void {
    if (!sketch.isWorthName(slot)) return;
    const labels = this.#labels(take.limit, call);
    const limit = labels.limit === "" ? BORROWED_LABEL : `${labels.limit}/${BORROWED_LABEL}`;
    const shown = take.mode === Mode.guarantee ? { ...labels, limit } : labels;
    sketch.named[slot] = this.#keys.use(key, () => keyTextOf(key, take, call), shown);
  }

  #labels({ stats, names: { path, readableName } }: Limit, call: LimitCall): RuleLabels {
    return this.#labelsOf(stats) ?? { domain: call.request.domain, rule: path, limit: readableName };
  }

  // A counter's key names its window; here all windows of a caller are one key.
  #withoutWindow(take: Take): Keyed {
    const key = this.#counterKey;
    key.keys.clear();
    key.keys.write(nameOfCounter(take.bucketKey));
    key.endKey(0);
    return key;
  }

  #partInHand(): Part {
    return { passed: this.#passed.tally(), refused: this.#refused.tally() };
  }

  #endPart(nowUs: number): void {
    const part = this.#partInHand();
    // From here on the part holds the keys, so the sketches need not release them.
    this.#passed.clear();
    this.#refused.clear();
    for (const window of Object.values(this.#windows)) window.add(part, nowUs);
    releasePart(part, this.#keys);
    this.#partEndUs = this.#windows.minute.endUs;
  }
}

/** Whether it is the take of a guarantee that does not cover its call. */
function isBorrowing({ mode, waitUs }: Take): boolean {
  return mode === Mode.guarantee && waitUs > 0;
}
