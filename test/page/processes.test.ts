// The page of several processes on one store: whichever of them answers, it shows what all have counted.

import { expect, test } from "vitest";
import { openCallers, requestAbout } from "../support/callers.ts";
import { RedisServer } from "../support/redis-server.ts";
import { startService } from "../support/service-process.ts";
import { expectClean, seeUrl, verdictOf, withBrowser } from "./support/seen-scene.ts";

withBrowser();

test("a flood at another process is in the verdict, and each process has its row", async () => {
  const redis = await RedisServer.start();
  const rules = "domain: edge\ndescriptors: [{ key: user, rate_limit: { requests_per_unit: 3, unit: day } }]\n";
  const env = { REDIS_URL: `127.0.0.1:${redis.port}` };
  const [flooded, quiet, apart] = [
    await startService(env, { rules }),
    await startService(env, { rules }),
    await startService({ ...env, CACHE_KEY_PREFIX: "other:" }, { rules }),
  ];
  const seen = await seeUrl(`http://127.0.0.1:${quiet.httpPort}/`);
  const rows = () => seen.page.locator("#processes tbody tr").allInnerTexts();
  await expect.poll(rows).toHaveLength(3);
  const [caller] = openCallers(1, `127.0.0.1:${flooded.grpcPort}`);
  for (let i = 0; i < 100; i++) await caller?.ask(requestAbout("user", "ann"));
  caller?.close();
  await expect
    .poll(() => verdictOf(seen))
    .toMatch(/^9\d % of calls refused since \S+, mostly user=ann by rule user of edge\.$/);
  expect(await seen.page.locator("#who").innerText()).toMatch(/ and 1 more, version /);
  expect(await seen.page.locator("#top-note").innerText()).toContain("2 processes");
  const notes = seen.page.locator("#charts-note, #rules-note");
  await expect
    .poll(() => notes.allInnerTexts())
    .toEqual([
      "Calls of all 2 processes; limits, times and events of the one that answers here.",
      expect.stringContaining("Counts of the process that answers here."),
    ]);
  await expect.poll(async () => (await rows())[0]).toMatch(/^All 2\s+[1-9]/);
  expect((await rows()).filter((row) => row.includes("answers here"))).toHaveLength(1);
  await expectClean(seen);
  await seen.page.setViewportSize({ width: 360, height: 740 });
  const widest =
    "Math.max(...[...document.querySelectorAll('#processes th, #processes td')].map((cell) => cell.scrollWidth - cell.clientWidth))";
  expect(await seen.page.evaluate(widest)).toBe(0);
  // Under another prefix, so it shares nothing.
  const { processes } = (await (await fetch(`http://127.0.0.1:${apart.httpPort}/state`)).json()) as {
    processes: unknown;
  };
  expect(processes).toHaveLength(1);
});
