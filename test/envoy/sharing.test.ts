// A noisy client and nine quiet ones behind one Envoy, under a limit for all of them: with and without a guarantee for each.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { fromHeader, listener, route } from "./support/bootstrap.ts";
import { Load } from "./support/caller.ts";
import { Rig } from "./support/rig.ts";

const RATE = 100;
const RULES = `
domain: edge
descriptors:
  - key: plain
    rate_limit: { tokens_per_second: ${RATE} }
  - key: lent
    rate_limit:
      tokens_per_second: ${RATE}
      guarantee: { entry: tenant, tokens_per_second: 10, burst: 1, keep: 10%, callers: 10 }
`;

const QUIET = 9;
/** Of each quiet client: half of what it is guaranteed. */
const PAUSE_MS = 200;
const SECONDS = 5;

let rig: Rig;
beforeAll(async () => {
  const tenant = fromHeader("x-tenant", "tenant");
  rig = await Rig.start({
    rules: RULES,
    listeners: [
      listener({
        name: "edge",
        routes: [
          route({ prefix: "/plain", rateLimits: [{ actions: [fromHeader("x-pool", "plain")] }] }),
          route({ prefix: "/lent", rateLimits: [{ actions: [fromHeader("x-pool", "lent"), tenant] }] }),
        ],
      }),
    ],
  });
});

/** Sends by all clients for some seconds, and counts the answers. */
async function send(path: string) {
  const edge = rig.caller("edge");
  const get = (tenant: string) => edge.get(path, { "x-pool": "one", "x-tenant": tenant });
  const noisy = new Load(16, () => get("noisy"));
  // The noisy one takes the burst first.
  await sleep(500);
  const startMs = performance.now();
  const before = noisy.statuses.get(200) ?? 0;
  const quiet = { asked: 0, refused: 0 };
  const clients = Array.from({ length: QUIET }, async (_, i) => {
    await sleep((i * PAUSE_MS) / QUIET);
    while (performance.now() - startMs < SECONDS * 1_000) {
      const { status } = await get(`quiet-${i}`);
      quiet.asked++;
      if (status !== 200) quiet.refused++;
      await sleep(PAUSE_MS);
    }
  });
  await Promise.all(clients);
  const seconds = (performance.now() - startMs) / 1_000;
  const noisyPassed = (noisy.statuses.get(200) ?? 0) - before;
  await noisy.stop();
  return { ...quiet, perSecond: (quiet.asked - quiet.refused + noisyPassed) / seconds };
}

// Promise(sharing): Behind Envoy, no flood of one client refuses others' calls within their guarantees, and the limit is used whole.
test("a flood of one client refuses most calls of quiet ones, and with guarantees none", async () => {
  const plain = await send("/plain");
  const lent = await send("/lent");
  expect(plain.refused / plain.asked).toBeGreaterThan(0.3);
  expect(lent.refused).toBe(0);
  expect(lent.asked).toBeGreaterThan(QUIET * SECONDS * 2);
  for (const { perSecond } of [plain, lent]) {
    expect(perSecond).toBeGreaterThan(RATE * 0.97);
    // What was left of the burst, too.
    expect(perSecond).toBeLessThan((RATE + RATE / SECONDS) * 1.02);
  }
}, 60_000);
