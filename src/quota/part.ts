// One Envoy's part of a bucket: what it was given, what it may still spend, and what it has asked for. Rates are whole
// tokens per minute, times microseconds.

import type { Demand } from "./division.ts";

/** How Envoy decides by itself: by a token bucket, or the same for all requests. */
export type Strategy = "bucket" | "deny" | "allow";

/** The stream of an Envoy, as a bucket sees it. */
export interface PartOwner {
  /** True while it does not read what it was sent: what it was told lately may not apply yet. */
  readonly isBehind: boolean;
}

export class EnvoyPart implements Demand {
  readonly owner: PartOwner;
  /** The bucket id, as the stream wrote it. */
  readonly id: Buffer;

  /** How its requests are decided: by the bucket, or all alike, as limits at run time may say. */
  mode: Strategy = "bucket";
  /** What it was told last. `rate` and `tokens` are 0 unless the strategy is a bucket. */
  strategy: Strategy = "deny";
  rate = 0;
  tokens = 0;
  /** What the latest division gives it. */
  targetRate = 0;
  targetTokens = 0;
  /** The most that it may spend by now: above `rate` and `tokens` until `settlesUs`, as they were reduced just now. */
  heldRate = 0;
  heldTokens = 0;
  settlesUs = 0;
  /** When Envoy drops what it was told. */
  expiresUs = 0;

  demand = Number.POSITIVE_INFINITY;
  isHungry = true;
  reportedUs = 0;
  /** The last report with a request. */
  usedUs = 0;
  /** Millionths of a token that it may have spent and has not reported. */
  unreported = 0;
  /** Up to when that was counted. */
  accruedUs: number;
  /** True once its stream has closed: Envoy may spend on, until what it was told expires. */
  isOrphan = false;
  /** True if its bucket has no token for it. */
  isLeftOut = false;

  constructor(owner: PartOwner, id: Buffer, nowUs: number) {
    this.owner = owner;
    this.id = id;
    this.reportedUs = nowUs;
    this.usedUs = nowUs;
    this.accruedUs = nowUs;
  }

  /** Notes that its stream does not read: Envoy may not know yet that it has less, or nothing. */
  fellBehind(): void {
    if (this.heldRate > this.rate || this.heldTokens > this.tokens)
      this.settlesUs = Math.max(this.settlesUs, this.expiresUs);
  }

  /** What it is told while it has no tokens. */
  get blanket(): Strategy {
    return this.mode === "allow" ? "allow" : "deny";
  }
}
