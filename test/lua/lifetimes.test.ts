// How long Redis keeps a token bucket whose rate was edited: as long as what was spent means something.

import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AMOUNT_MAX } from "../../src/engine/base/units.ts";
import { Mode } from "../../src/engine/domain/take.ts";
import { bucketNumbers } from "../property/rates.ts";
import { RedisServer } from "../support/redis-server.ts";
import { runs } from "../support/runs.ts";
import { runOne, type ScriptCall } from "./script-rig.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
}, 60_000);
afterAll(() => server.stop());

const COSTS = fc.integer({ min: 1, max: AMOUNT_MAX });

// Promise(limits): A lowered rate keeps what was spent, on every store.
test("a bucket is kept as long as the rate needs that it was last asked about, refused or only looked at", async () => {
  await fc.assert(
    fc.asyncProperty(bucketNumbers(), bucketNumbers(), COSTS, fc.boolean(), async (written, edited, cost, peeks) => {
      await server.command("DEL", "k");
      const callOf = ({ amount, burst, windowSeconds }: typeof written, mode: Mode, asked: number): ScriptCall => ({
        keys: ["k"],
        limits: [{ algorithm: 0, amount, burst, seconds: windowSeconds, debtMax: AMOUNT_MAX }],
        groups: [{ takes: [{ mode, cost: asked }] }],
        timeUs: 0,
      });
      await runOne(server, callOf(written, Mode.postPaid, cost));
      const before = await server.command("GET", "k");
      const { reset } = await runOne(server, callOf(edited, peeks ? Mode.peek : Mode.pay, edited.burst + 1));
      const lifetimeMs = Number(await server.command("PTTL", "k"));
      // What is gone already, by either rate, need not be kept; a busy machine may take a while to come here.
      fc.pre(reset > 1_000_000 && before !== null);
      expect(lifetimeMs).toBeGreaterThan(reset / 1_000 - 500);
      expect(await server.command("GET", "k")).toBe(before);
    }),
    { numRuns: runs(150) },
  );
});
