// Requests at a rate, one after another, whatever the answers; counts those that passed, by when they did.

import { Agent, request } from "node:http";
import { endWithTest } from "../../support/ends.ts";

const STEP_MS = 5;

export class Paced {
  perSecond = 0;
  /** When each request that passed was answered, in ms of `performance.now()`. */
  readonly passed: number[] = [];
  sent = 0;
  readonly #ask: () => Promise<boolean>;
  readonly #timer: NodeJS.Timeout;
  #owed = 0;
  #lastMs = performance.now();

  /** `ask` resolves to whether the request passed. */
  constructor(ask: () => Promise<boolean>) {
    this.#ask = ask;
    this.#timer = setInterval(() => this.#send(), STEP_MS);
    endWithTest(() => this.stop());
  }

  /** Through an Envoy's listener. */
  static http(port: number, headers: Readonly<Record<string, string>>): Paced {
    const agent = new Agent({ keepAlive: true, maxSockets: 32 });
    endWithTest(() => agent.destroy());
    return new Paced(
      () =>
        new Promise((resolve) => {
          const sent = request({ host: "127.0.0.1", port, headers, agent }, (response) => {
            response.resume();
            response.on("error", () => resolve(false)).on("end", () => resolve(response.statusCode === 200));
          });
          sent.on("error", () => resolve(false)).end();
        }),
    );
  }

  #send(): void {
    const nowMs = performance.now();
    this.#owed += ((nowMs - this.#lastMs) / 1_000) * this.perSecond;
    this.#lastMs = nowMs;
    for (; this.#owed >= 1; this.#owed--) {
      this.sent++;
      void this.#ask().then((isPassed) => isPassed && this.passed.push(performance.now()));
    }
  }

  /** Requests that passed in the last `seconds`. */
  passedLately(seconds: number): number {
    const from = performance.now() - seconds * 1_000;
    return this.passed.filter((atMs) => atMs >= from).length;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

/** By how much all that passed exceeds rate x t in the worst stretch of time. */
export function worstBurst(all: readonly Paced[], perSecond: number): number {
  let level = 0;
  let worst = 0;
  let lastMs = 0;
  for (const atMs of all.flatMap(({ passed }) => passed).sort((a, b) => a - b)) {
    level = Math.max(0, level - ((atMs - lastMs) / 1_000) * perSecond) + 1;
    lastMs = atMs;
    worst = Math.max(worst, level);
  }
  return worst;
}
