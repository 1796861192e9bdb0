// Calls of all processes that share a store, as each process knows them by what the store's register says now and then.

import fc from "fast-check";
import { expect, test } from "vitest";
import { CALLS, Deployment } from "../../../../src/operate/telemetry/deployment.ts";
import { runs } from "../../../support/runs.ts";

const SECOND = 1_000_000;
const step = fc.oneof(
  fc.record({ does: fc.constant("count" as const), by: fc.nat(3), of: fc.nat(CALLS.length - 1), calls: fc.nat(50) }),
  fc.record({ does: fc.constant("restart" as const), by: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ does: fc.constant("hear" as const), afterS: fc.nat(9), missing: fc.integer({ min: 1, max: 9 }) }),
);

test("sums only grow, by what each process has counted while it was known; rates are never above what was counted", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let nowUs = SECOND;
      let born = 4;
      const processes = [0, 1, 2, 3].map((id) => ({ id: `${id}`, counts: CALLS.map(() => 0) }));
      const [own] = processes as [(typeof processes)[number]];
      const deployment = new Deployment(() => own.counts);
      /** What others have counted since they were first heard of, until they were last. */
      let others = CALLS.map(() => 0);
      let heard = new Map<string, readonly number[]>();
      let before = deployment.totals();
      for (const each of steps) {
        const process = "by" in each ? (processes[each.by] as (typeof processes)[number]) : own;
        if (each.does === "count")
          process.counts = process.counts.map((count, i) => count + (i === each.of ? each.calls : 0));
        if (each.does === "restart") processes[each.by] = { id: `${born++}`, counts: CALLS.map(() => 0) };
        if (each.does !== "hear") continue;
        nowUs += each.afterS * SECOND;
        // One may have been silent for too long.
        const all = processes.filter((_, i) => i !== each.missing);
        const register = all.map(({ id, counts }) => ({ id, name: `h:${id}`, version: 0, calls: counts }));
        const thread = { id: "thread", name: "", version: 0, calls: [] };
        deployment.heard([...register, thread], own.id, nowUs);
        for (const { id, counts } of all.slice(1)) {
          const known = heard.get(id) ?? counts;
          others = others.map((sum, i) => sum + (counts[i] ?? 0) - (known[i] ?? 0));
        }
        heard = new Map(all.map(({ id, counts }) => [id, [...counts]]));
        expect(deployment.totals()).toEqual(own.counts.map((count, i) => count + (others[i] ?? 0)));
        const rates = deployment.processes();
        expect(rates.map(({ instance }) => instance)).toEqual(all.map(({ id }) => `h:${id}`).sort());
        for (const { instance, per_second: perSecond } of rates)
          for (const [i, name] of CALLS.entries())
            expect((perSecond?.[name] ?? 0) * 5).toBeLessThanOrEqual(heard.get(instance.slice(2))?.[i] ?? 0);
      }
      const now = deployment.totals();
      expect(now.every((count, i) => count >= (before[i] ?? 0))).toBe(true);
      before = now;
    }),
    { numRuns: runs(300) },
  );
});

test("a rate is what was counted in five seconds and more, by that time", () => {
  const deployment = new Deployment(() => CALLS.map(() => 0));
  const hear = (atS: number, refused: number) =>
    deployment.heard([{ id: "b", name: "b:1", version: 0, calls: [0, refused, 0, 0] }], "a", atS * SECOND);
  const rate = () => deployment.processes()[0]?.per_second?.refused;
  hear(1, 100);
  hear(5, 130);
  expect(rate()).toBeUndefined();
  hear(7, 160);
  expect(rate()).toBe(10);
  hear(9, 999);
  expect(rate()).toBe(10);
});
