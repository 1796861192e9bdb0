// A simulation decides as a server on a real Redis decides the same recording, with the recording's clock injected there.

import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { drawnCalls, drawnRules } from "../support/recorded-calls.ts";
import { servedAnswers, simulatedAnswers } from "../support/recorded-service.ts";
import { RedisServer } from "../support/redis-server.ts";
import { runs } from "../support/runs.ts";
import { whenUp } from "../support/when-up.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
});

/** Nothing is measured here: a deadline that no busy machine reaches. */
const DEADLINE_MS = 60_000;

// Promise(simulations): A simulation answers as the service on a real Redis does, under the recording's clock.
test("a simulation answers every call as the service on a real Redis does", async () => {
  let replays = 0;
  await fc.assert(
    fc.asyncProperty(drawnRules, drawnCalls(80), async (rules, calls) => {
      const clock = new ManualClock();
      const cacheKeyPrefix = `day${replays++}:`;
      const target = server.target();
      const store = openRedisStore({
        target,
        injectedTime: clock,
        clock,
        deadlineMs: DEADLINE_MS,
        keyPrefix: cacheKeyPrefix,
      });
      if (!(await whenUp(store, 20_000))) throw new Error(store.trouble());
      const served = await servedAnswers(calls, { rules, cacheKeyPrefix }, { store, clock });
      expect(simulatedAnswers(calls, { rules }).answers).toEqual(served);
    }),
    { numRuns: runs(60) },
  );
});
