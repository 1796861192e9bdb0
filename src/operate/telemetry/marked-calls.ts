// Counts calls that blocks refuse and calls that shadow mode lets pass: both are intended, so the page tells them from
// other refusals.

import type { LimitCall } from "../../engine/limiter/call.ts";
import type { CallListener } from "../../engine/limiter/limiter-observer.ts";

export class MarkedCalls implements CallListener {
  /** Refused calls with a caller who is blocked at run time. */
  blocked = 0;
  /** Allowed calls that shadow mode, or a block on paper, would have refused. */
  shadowed = 0;
  readonly #next: CallListener | undefined;

  /** `next` gets every call, too. */
  constructor(next: CallListener | undefined) {
    this.#next = next;
  }

  decided(call: LimitCall, nowUs: number): void {
    if (call.wasShadowed) this.shadowed++;
    else if (call.refusal === "blocked") this.blocked++;
    this.#next?.decided(call, nowUs);
  }
}
