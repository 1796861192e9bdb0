// The page of several workers, and of several processes on one store: whichever of them answers, it shows what all have counted and what any of
// them finds wrong.

import { writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { openCallers, requestAbout } from "../support/callers.ts";
import { RedisServer } from "../support/redis-server.ts";
import { startService } from "../support/service-process.ts";
import { startWorkers } from "../support/worker-rig.ts";
import { conditionsOf, expectClean, seeUrl, verdictOf, withBrowser } from "./support/seen-scene.ts";

withBrowser();

// Promise(operators): Any worker that answers the page reports all of them.
test("two workers: their calls are one sum, their rules and troubles are shown once, each worker has its row", async () => {
  const redis = await RedisServer.start();
  const rig = await startWorkers({ REDIS_URL: `127.0.0.1:${redis.port}` });
  const callers = openCallers(8, rig.target);
  for (let i = 0; i < 20; i++) for (const caller of callers) await caller.ask(requestAbout("user", "ann"));
  for (const caller of callers) caller.close();
  const seen = await seeUrl(`http://127.0.0.1:${rig.httpPort}/`);
  await expect
    .poll(() => verdictOf(seen))
    .toMatch(/^(?:All is well|\d+ % of calls refused since \S+, mostly user=ann by rule user of edge)\.$/);
  const key = seen.page.locator("#top tbody tr");
  await expect.poll(() => key.innerText()).toMatch(/^user=ann\s+user\s+edge\s+60\s+160\s/);
  const user = seen.page.locator("#rules tbody tr", {
    has: seen.page.getByText("100 hits per hour", { exact: false }),
  });
  await expect.poll(() => user.first().locator(".refused-ever").innerText()).toBe("60");
  // One worker takes samples, and whichever answers shows them.
  await expect.poll(() => user.first().locator(".hits-now").innerText()).toMatch(/^\d/);
  for (let i = 0; i < 8; i++) {
    const answer = await fetch(`http://127.0.0.1:${rig.httpPort}/history`, { headers: { connection: "close" } });
    expect(await answer.json()).toMatchObject({ seconds: expect.arrayContaining([expect.any(Number)]) });
  }
  const rows = () => seen.page.locator("#workers tbody tr").allInnerTexts();
  expect(await rows()).toEqual([expect.stringMatching(/^1\s+ready/), expect.stringMatching(/^2\s+ready/)]);
  expect((await rows()).filter((row) => row.includes("answers here"))).toHaveLength(1);
  await expectClean(seen);
  await writeFile(rig.rulesFile, "domain: edge\ndescriptors: [{ kee: user }]\n");
  rig.signal("SIGHUP");
  await expect
    .poll(() => conditionsOf(seen))
    .toEqual([expect.stringMatching(/^New rules rejected.*worker 1, worker 2\s.*\srules\.yaml:2:\d+: error:/s)]);
  await redis.kill();
  const again = openCallers(8, rig.target);
  for (let i = 0; i < 4; i++) for (const caller of again) await caller.ask(requestAbout("user", `ann-${i}`));
  for (const caller of again) caller.close();
  // One cause that both see, with what comes of it; the rules are refused still.
  await expect
    .poll(() => conditionsOf(seen))
    .toEqual([
      expect.stringMatching(/^New rules rejected/),
      expect.stringMatching(
        /^Redis at .*refuses connections.*worker 1, worker 2.*32 calls were answered without the store/s,
      ),
    ]);
  // No heading of the table is apart within a word.
  for (const width of [1_100, 360]) {
    await seen.page.setViewportSize({ width, height: 740 });
    const widest =
      "Math.max(...[...document.querySelectorAll('#workers th, #workers td')].map((cell) => cell.scrollWidth - cell.clientWidth))";
    expect(await seen.page.evaluate(widest)).toBe(0);
  }
});

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
  expect(await seen.page.locator("#top-note").innerText()).toContain("2 processes");
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
