// How long a refused call is told to wait.

import { expect, test } from "vitest";
import { LimiterRig } from "../../../support/limiter-rig.ts";

const bucket = (rate: number, burst: number) =>
  `domain: edge\ndescriptors:\n  - { key: a, rate_limit: { tokens_per_second: ${rate}, burst: ${burst} } }\n`;

// Promise(answers): Retry-After is the wait, rounded up to whole seconds.
test.each([
  { rate: 2, burst: 10, spent: 8, cost: 5, seconds: 2 },
  { rate: 2, burst: 10, spent: 8, cost: 4, seconds: 1 },
  { rate: 0.5, burst: 1, spent: 1, cost: 1, seconds: 2 },
  { rate: 1.5, burst: 9, spent: 9, cost: 3, seconds: 2 },
])(
  "at $rate tokens per second, $spent of $burst spent, a cost of $cost waits (cost - tokens) / rate, rounded up",
  ({ rate, burst, spent, cost, seconds }) => {
    const rig = new LimiterRig(bucket(rate, burst));
    rig.hit({ a: "x" }, spent);
    const refused = rig.hit({ a: "x" }, cost);
    expect(refused).toMatchObject({ over: true, statuses: [{ reset: seconds }] });
    expect(seconds).toBe(Math.ceil((cost - (burst - spent)) / rate));
    rig.clock.advanceSeconds(seconds);
    expect(rig.hit({ a: "x" }, cost).over).toBe(false);
  },
);
