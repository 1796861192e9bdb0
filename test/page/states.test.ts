// What stands on the operator's page in each state of the service, in a real browser: light and dark, wide and on a telephone,
// without a complaint of the browser and without a barrier that axe knows.

import { expect, test } from "vitest";
import { flood, healthy, rulesRefused, storeAway, storeHangs, unmatched } from "./support/scenes.ts";
import { conditionsOf, expectClean, see, verdictOf, withBrowser } from "./support/seen-scene.ts";

withBrowser();

test("all is well: it says so, and rules and calls have their numbers", async () => {
  const seen = await see(healthy());
  await expect.poll(() => verdictOf(seen)).toBe("All is well.");
  expect(await conditionsOf(seen)).toEqual([]);
  const row = seen.page.getByRole("row", { name: /tenant per-second/ });
  await expect.poll(() => row.locator(".hits-now").innerText()).toMatch(/^\d+(\.\d)?$/);
  expect(await row.innerText()).toContain("50 hits per second, sliding window; rules.yaml:4:5");
  await expect.poll(() => seen.page.locator("#calls output").first().innerText()).not.toBe("0");
  await expectClean(seen);
});

test("charts move while one looks, and rest while nobody can see them", async () => {
  const seen = await see(healthy());
  const path = () => seen.page.locator("#calls svg .hits").first().getAttribute("d");
  await expect.poll(path).toMatch(/^M.+L.+L/);
  const before = await path();
  await expect.poll(path).not.toBe(before);
});

test("Redis is away: the store is named, since when, and what to do; that it is back shows, too", async () => {
  const seen = await see(storeAway());
  await expect.poll(() => verdictOf(seen)).toBe("2 things are wrong.");
  const [store = "", degraded = ""] = await conditionsOf(seen);
  expect(store).toMatch(
    /^Redis at 127\.0\.0\.1:\d+ refuses connections: nothing listens there\.\s+critical, since \d\d:\d\d:\d\d \(\d+ s\)/,
  );
  expect(store).toMatch(/on_store_failure.*More: docs\/operations\.md#what-fails-what-callers-see-what-to-watch$/s);
  expect(degraded).toMatch(/^\d+ calls were answered without the store/);
  await expect.poll(() => seen.page.locator("#calls li").nth(2).innerText()).toMatch(/^without the store\s+[1-9]/);
  await expectClean(seen);
  await seen.scene.bringBack();
  await expect.poll(() => conditionsOf(seen)).toEqual([expect.stringContaining("answered without the store")]);
});

test("Redis hangs: its breaker is named until it answers again", async () => {
  const seen = await see(storeHangs());
  const breaker = expect.stringMatching(/^The breaker of Redis is (open|probing): .*critical, since/s);
  await expect.poll(() => conditionsOf(seen)).toEqual(expect.arrayContaining([breaker]));
  await expectClean(seen);
  seen.scene.goOn();
  await expect.poll(() => conditionsOf(seen)).not.toEqual(expect.arrayContaining([breaker]));
});

test("rules are refused: each mistake stands there with file and line", async () => {
  const seen = await see(rulesRefused());
  await expect.poll(() => verdictOf(seen)).toBe("1 thing is wrong.");
  const [said = ""] = await conditionsOf(seen);
  expect(said).toContain("The last good rules stay in force.");
  expect(said).toMatch(/rules\.yaml:5:5: error: .*rate_limitz.*Did you mean 'rate_limit'\?/);
  await expectClean(seen);
});

test("a flood of one key: the rule that refuses shows by how much", async () => {
  const seen = await see(flood());
  const row = seen.page.locator("#rules tbody tr", { has: seen.page.getByText("5 hits per hour") });
  await expect.poll(() => row.locator(".refused-now").innerText()).toMatch(/^[1-9]/);
  await expectClean(seen);
});

test("descriptors meet no rule: the domain and the keys of one are named, a domain without rules, too", async () => {
  const seen = await see(unmatched());
  await expect.poll(() => verdictOf(seen)).toBe("2 things to look at, nothing urgent.");
  expect((await conditionsOf(seen)).toSorted()).toEqual([
    expect.stringMatching(/^Calls name domain egde, which has no rules/),
    expect.stringMatching(/^Descriptors of domain edge meet no rule.*One had the keys tenent, plan\./),
  ]);
  expect(await seen.page.locator("body").innerText()).toMatch(/Domain\s+Since the start\s+edge\s+\d+\s+egde\s+1$/);
  await expectClean(seen);
});
