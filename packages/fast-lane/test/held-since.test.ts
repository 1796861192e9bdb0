// Since when output is unread.

import fc from "fast-check";
import { expect, test } from "vitest";
import { runs } from "../../../test/support/runs.ts";
import { HeldSince } from "../src/sender.ts";

test("tells since when bytes are held: nothing older is there, and what was read twice over is forgotten", () => {
  const step = fc.record({ comes: fc.integer({ min: 0, max: 100 }), goes: fc.integer({ min: 0, max: 100 }) });
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 60 }), (steps) => {
      const held = new HeldSince();
      let came = 0;
      let gone = 0;
      /** By time: how many bytes had come, and gone. */
      const history: { came: number; gone: number }[] = [];
      for (const [nowUs, { comes, goes }] of steps.entries()) {
        came += comes;
        if (comes > 0) held.set(came - gone, nowUs);
        gone += Math.floor(((came - gone) * goes) / 100);
        if (held.bytes !== came - gone) held.set(came - gone, nowUs);
        history.push({ came, gone });
        if (came === gone) continue;
        // The oldest byte that is there came in the first step by whose end more had come than is gone now.
        const oldest = history.findIndex((then) => then.came > gone);
        expect(held.sinceUs).toBeLessThanOrEqual(oldest);
        // By `first` all was gone that is gone now of an earlier time, and since then all that was there then.
        const first = history.findLastIndex((then) => then.came <= gone);
        const before = history.findLastIndex((then) => then.came <= (history[first]?.gone ?? 0));
        expect(held.sinceUs).toBeGreaterThanOrEqual(before);
      }
    }),
    { numRuns: runs(200) },
  );
});
