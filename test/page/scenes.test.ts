// Five incidents as somebody on call comes upon them: within a look the page answers who is refused, by what, since
// when, whether it is the store, and what it was like before.

import { expect, test } from "vitest";
import type { SeenPage } from "./support/browser.ts";
import { healthy, rulesRefused, type Scene, setLimits, storeAway, TOKEN } from "./support/scenes.ts";
import {
  conditionsOf,
  endWithTest,
  expectClean,
  factsOf,
  openKey,
  see,
  unlock,
  verdictOf,
  withBrowser,
} from "./support/seen-scene.ts";

withBrowser();

/** Goes on for so many minutes, a sample for each. */
async function spend(minutes: number, { page, scene }: SeenPage & { readonly scene: Scene }): Promise<void> {
  for (let i = 0; i < minutes; i++) {
    await page.waitForTimeout(1_100);
    scene.skip(59);
  }
}

test("one tenant floods: who, by which rule, since when; the store is well, and before nobody was refused", async () => {
  const seen = await see(healthy());
  const { page, scene } = seen;
  await expect.poll(() => page.locator("#calls output").first().innerText()).toMatch(/^all/);
  await spend(11, seen);
  scene.call({ tenant: "globex" }, 150);
  await expect
    .poll(() => verdictOf(seen))
    .toMatch(
      /^\d+ % of calls refused since \d\d:\d\d:\d\d, mostly tenant=globex by rule tenant \(per-second\) of edge\.$/,
    );
  await expect
    .poll(() => factsOf(seen))
    .toMatchObject({
      Before: expect.stringMatching(/^at \d\d:\d\d:\d\d \S+ calls\/s, none refused$/),
      Store: "memory",
      "Last change": expect.stringMatching(/^none; rules since/),
    });
  expect(await conditionsOf(seen)).toEqual([]);
  await expectClean(seen);
});

test("the store is away: that is the cause and comes first, and nothing is well", async () => {
  const seen = await see(storeAway());
  await expect
    .poll(() => verdictOf(seen))
    .toMatch(
      /^Redis has been down for \d+ s: \d+ % of calls pass without limits; login is refused; plan=free\/api_key counts per process\./,
    );
  await expect.poll(() => factsOf(seen)).toMatchObject({ Store: "Redis away" });
  const [first = "", ...others] = await conditionsOf(seen);
  expect(first).toMatch(/^Redis at \S+ refuses connections.*critical, since \d\d:\d\d:\d\d.*\d+ details/s);
  expect(others).toEqual([]);
  await expectClean(seen);
});

test("rules are rejected while calls go on: said first, with since when; the store is well, and nobody is refused", async () => {
  const seen = await see(rulesRefused());
  await expect.poll(() => verdictOf(seen)).toBe("New rules are rejected.");
  await expect.poll(() => factsOf(seen)).toMatchObject({ Store: "memory" });
  expect(await conditionsOf(seen)).toEqual([
    expect.stringMatching(/The previous rules stay active\.\s+critical, since \d\d:\d\d:\d\d \(\d+ s\)/),
  ]);
  // A browser lets no test read what was copied without asking.
  await seen.page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }");
  await seen.page.getByRole("button", { name: "Copy command" }).click();
  await expect.poll(() => seen.page.evaluate("window.copied")).toBe("headgate check");
  await expectClean(seen);
});

test("a limit that was lowered at run time refuses: whose, and by whom it was set and why", async () => {
  const seen = await see(healthy({ ADMIN_TOKEN: TOKEN }));
  const { page, scene } = seen;
  const entries = [{ key: "tenant", value: "acme" }];
  const lowered = { domain: "edge", entries, limit: "per-second", requests_per_unit: 2, note: "INC-7" };
  await setLimits(scene, [lowered]);
  await unlock(seen);
  await expect
    .poll(() => factsOf(seen))
    .toMatchObject({
      "Last change": expect.stringMatching(/^tenant=acme got other amounts by ADMIN_TOKEN \(INC-7\) at/),
    });
  await expect
    .poll(() => verdictOf(seen))
    .toMatch(/^\d+ % of calls refused since \S+, mostly tenant=acme by rule tenant/);
  await openKey(seen, "tenant=acme");
  await expect
    .poll(() => page.locator("#explained").innerText())
    .toMatch(/per-second: 2 hits per second.*Set at \S+ by ADMIN_TOKEN: INC-7/s);
  expect(await page.locator("#limits tbody").innerText()).toContain("INC-7");
  await expectClean(seen);
});

test("a flood ten minutes ago has ended: all is well now, and it is said who was refused, by what, from when to when", async () => {
  const seen = await see(healthy());
  const { page, scene } = seen;
  const calls = setInterval(() => void scene.app.hit({ user: "alice" }).catch(() => undefined), 25);
  endWithTest(async () => clearInterval(calls));
  await expect
    .poll(() => verdictOf(seen))
    .toMatch(/^\d+ % of calls refused since \S+, mostly user=alice by rule user of edge\.$/);
  clearInterval(calls);
  await spend(10, seen);
  await expect
    .poll(() => verdictOf(seen))
    .toMatch(/^All is well\. From \S+ to \S+ \d+ % of calls were refused, mostly user=alice by rule user of edge\.$/);
  expect(await page.locator("#calls svg .refused").first().getAttribute("d")).toMatch(/V60/);
  await expectClean(seen);
});
