// Envoys with their rate limit quota filter, as Envoy 1.36 to 1.40 works: what it does with an assignment, what it
// reports, and when. Messages to and from each take a while; time moves by hand.

import type { Strategy } from "../../src/quota/part.ts";

/** What an Envoy is told of its bucket. `abandon`: to forget it. */
export interface Told {
  readonly strategy: Strategy | "abandon";
  readonly perMinute: number;
  readonly tokens: number;
}

const TTL_US = 15_000_000;
export const REPORT_US = 5_000_000;

/** One Envoy with one bucket, whose `no_assignment_behavior` is DENY_ALL. */
export class SimulatedEnvoy {
  #told: Told | undefined;
  #fill = 0;
  #filledUs = 0;
  #expiresUs = 0;
  passed = 0;
  refused = 0;
  isKnown = false;
  /** When it reports next; Infinity before its first request. */
  reportsUs = Number.POSITIVE_INFINITY;
  #lastReportUs = 0;

  /** Decides one request. Returns whether it passes. */
  decide(nowUs: number): boolean {
    this.#advance(nowUs);
    const passes = this.#passes();
    if (passes) this.passed++;
    else this.refused++;
    if (!this.isKnown) {
      this.isKnown = true;
      this.reportsUs = nowUs;
    }
    return passes;
  }

  #passes(): boolean {
    if (this.#told === undefined || this.#told.strategy === "deny") return false;
    if (this.#told.strategy === "allow") return true;
    if (this.#fill < 1) return false;
    this.#fill -= 1;
    return true;
  }

  #advance(nowUs: number): void {
    const told = this.#told;
    if (told === undefined) return;
    this.#fill = Math.min(told.tokens, this.#fill + ((nowUs - this.#filledUs) * told.perMinute) / 60e6);
    this.#filledUs = nowUs;
    if (nowUs >= this.#expiresUs) this.#told = undefined;
  }

  hear(told: Told, nowUs: number): void {
    this.#advance(nowUs);
    if (told.strategy === "abandon") {
      this.#told = undefined;
      this.isKnown = false;
      this.#lastReportUs = 0;
      this.reportsUs = Number.POSITIVE_INFINITY;
      return;
    }
    const old = this.#told;
    // Another token bucket begins as full as the old one was.
    const ratio = old?.strategy === "bucket" && old.tokens > 0 ? this.#fill / old.tokens : 1;
    this.#fill = ratio * told.tokens;
    this.#filledUs = nowUs;
    this.#told = told;
    this.#expiresUs = nowUs + TTL_US;
  }

  /** What it reports now; its time is in whole seconds, and nothing if this is the first report. */
  report(nowUs: number): { readonly passed: number; readonly refused: number; readonly seconds: number } {
    const seconds = this.#lastReportUs === 0 ? 0 : Math.floor((nowUs - this.#lastReportUs) / 1e6);
    const report = { passed: this.passed, refused: this.refused, seconds };
    this.passed = 0;
    this.refused = 0;
    this.#lastReportUs = nowUs;
    this.reportsUs = nowUs + REPORT_US;
    return report;
  }
}
