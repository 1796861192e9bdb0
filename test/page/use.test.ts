// The operator's page in use: explaining and resetting, by mouse and by keyboard alone, while the server goes away and
// comes back, and while nobody looks.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { freePort } from "../support/redis-server.ts";
import type { SeenPage } from "./support/browser.ts";
import { blocked, flood, healthy, longKeys, manyRules, open } from "./support/scenes.ts";
import {
  endWithTest,
  expectClean,
  explain,
  openKey,
  see,
  seeUrl,
  unlock,
  verdictOf,
  withBrowser,
} from "./support/seen-scene.ts";

withBrowser();

const explained = ({ page }: SeenPage) => page.locator("#explained");

test("a descriptor is explained with what is left in its buckets, which a confirmed reset fills", async () => {
  const seen = await see(open());
  const { page, scene } = seen;
  for (let i = 0; i < 5; i++) await scene.app.hit({ user: "ann" });
  const logged = { domain: "edge", descriptors: [{ entries: [{ key: "user", value: "ann" }] }], code: "OVER_LIMIT" };
  await explain(seen, JSON.stringify(logged));
  await page.getByText("The rule 'user' applies.").waitFor();
  const row = explained(seen).locator("tbody tr");
  expect(await row.innerText()).toMatch(/edge\/user\s+\{edge\|user=ann\}.*\s+0 of 5\s+in \d+ (?:h|min)/);
  await page.getByRole("button", { name: "Reset these buckets ..." }).click();
  const dialog = page.getByRole("dialog", { name: "Reset these buckets?" });
  expect(await dialog.innerText()).toContain("{edge|user=ann}|sw/3600");
  expect(await seen.barriers()).toEqual([]);
  await page.getByRole("button", { name: "Cancel" }).click();
  expect((await scene.app.hit({ user: "ann" })).overall_code).toBe("OVER_LIMIT");
  await page.getByRole("button", { name: "Reset these buckets ..." }).click();
  await page.getByRole("button", { name: "Reset", exact: true }).click();
  await page.getByText("1 bucket reset.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  await expect.poll(() => row.innerText()).toMatch(/5 of 5\s+now\s+now$/);
  expect((await scene.app.hit({ user: "ann" })).overall_code).toBe("OK");
  const lines = scene.app.log.filter((line) => line.includes("buckets were reset"));
  expect(lines).toHaveLength(1);
  await expectClean(seen);
});

test("a descriptor that meets no rule, and one that can't be read, are answered in words", async () => {
  const seen = await see(open());
  await explain(seen, "tenent=acme");
  await expect.poll(() => explained(seen).innerText()).toMatch(/^No rule has key 'tenent'.*Did you mean 'tenant'\?/s);
  await explain(seen, '{"domain":"edge"');
  await expect.poll(() => explained(seen).innerText()).toMatch(/^Expected JSON/);
  await expectClean(seen);
});

test("Enter explains, Shift+Enter begins a line, and the answer says what it is of and when it came", async () => {
  const seen = await see(open());
  const { page, scene } = seen;
  await page.locator("#data").waitFor();
  await page.keyboard.press("e");
  const box = page.getByRole("textbox", { name: "Descriptor" });
  await box.fill("user=ann");
  await box.press("Shift+Enter");
  await box.pressSequentially("tenant=acme");
  expect(await box.inputValue()).toBe("user=ann\ntenant=acme");
  await box.press("Enter");
  await expect.poll(() => explained(seen).innerText()).toMatch(/^2 of 2 descriptors have a limit; /);
  await explain(seen, "user=ann");
  const of = page.locator("#explained-of");
  await expect.poll(() => of.innerText()).toMatch(/^As of \d\d:\d\d:\d\d\.$/);
  await writeFile(join(scene.app.rulesDir, "rules.yaml"), "domain: edge\ndescriptors: [{ key: user }]\n");
  await scene.app.app.reload();
  // It was of rules that are no longer in force, so it is refreshed.
  await expect.poll(() => explained(seen).innerText()).toMatch(/has no limit/);
  await explain(seen, "user=ann plan=free");
  await expect
    .poll(() => explained(seen).innerText())
    .toMatch(/^The value of user looks like two entries.*user=ann,plan=free/s);
  expect(await page.locator("#explain-heading").innerText()).toBe("user=ann plan=free");
  await expectClean(seen);
});

// Promise(operators): The page can be used by keyboard alone.
test("keyboard alone: to the box, through a reset, and out again, always seeing where one is", async () => {
  const seen = await see(open());
  const { page, scene } = seen;
  await scene.app.hit({ user: "ann" });
  await expect.poll(() => verdictOf(seen)).toBe("All is well.");
  const tabTo = async (name: string) => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press("Tab");
      const at = "(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim()";
      if ((await page.evaluate(at)) !== name) continue;
      expect(await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")).toBe("solid");
      return;
    }
    throw new Error(`no Tab leads to ${name}`);
  };
  await page.keyboard.press("e");
  expect(await page.evaluate("document.activeElement.id")).toBe("descriptor");
  await page.keyboard.type("user=ann");
  await tabTo("Explain");
  await page.keyboard.press("Enter");
  await page.getByText("4 of 5").waitFor();
  await tabTo("Reset these buckets ...");
  await page.keyboard.press("Enter");
  expect(await page.evaluate("document.activeElement.textContent")).toBe("Cancel");
  await page.keyboard.press("Escape");
  expect(await page.evaluate("document.activeElement.textContent")).toBe("Reset these buckets ...");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByText("1 bucket reset.").waitFor();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  await expect.poll(() => page.locator("#sheet").isVisible()).toBe(false);
  await page.keyboard.press("/");
  expect(await page.evaluate("document.activeElement.name")).toBe("find");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
});

// Promise(operators): The page says when the server does not answer, and how old its data is.
test("while the server is away the page says so and how old its data is, and continues once it is back", async () => {
  const PORT = String(await freePort());
  const before = await healthy({ PORT });
  const seen = await seeUrl(before.url);
  await expect.poll(() => verdictOf(seen)).toBe("All is well.");
  await before.stop();
  await expect.poll(() => verdictOf(seen)).toBe("The server does not answer.");
  const stale = seen.page.locator("#stale");
  expect(await stale.innerText()).toMatch(
    /^Can't reach the server\. Retrying every 2 s\. Data below is from \d\d:\d\d:\d\d \(\d+ s ago\)\.$/,
  );
  expect(await seen.page.locator("#rules tbody tr").count()).toBeGreaterThan(3);
  expect(await seen.barriers()).toEqual([]);
  const after = await healthy({ PORT });
  endWithTest(() => after.stop());
  await expect.poll(() => verdictOf(seen)).toBe("All is well.");
  expect(await stale.isVisible()).toBe(false);
  // Charts go on, though all counters have begun again.
  await expect.poll(() => seen.page.locator("#calls output").first().innerText()).toMatch(/^all [1-9]/);
  await expectClean(seen, /ERR_CONNECTION_(REFUSED|RESET)|ERR_EMPTY_RESPONSE/);
});

test("nobody is asked while the page is hidden", async () => {
  const seen = await see(open());
  await expect.poll(() => verdictOf(seen)).toBe("All is well.");
  const asked: string[] = [];
  seen.page.on("request", (request) => asked.push(request.url()));
  const hide = (isHidden: boolean) =>
    seen.page.evaluate(
      `Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`,
    );
  await hide(true);
  await seen.page.waitForTimeout(500);
  asked.length = 0;
  // Longer than two looks.
  await seen.page.waitForTimeout(5_000);
  expect(asked).toEqual([]);
  await hide(false);
  await expect.poll(() => asked.length).toBeGreaterThan(0);
});

test("with reduced motion nothing on the page is animated", async () => {
  const seen = await see(flood(), { reducedMotion: "reduce" });
  await expect.poll(() => seen.page.locator("#calls svg .hits").first().getAttribute("d")).toMatch(/^M.+L/);
  expect(await seen.page.evaluate("document.getAnimations().length")).toBe(0);
});

test("changing numbers shift no layout and are not announced again and again", async () => {
  const seen = await see(healthy());
  await expect.poll(() => seen.page.locator("#calls output").first().innerText()).toMatch(/\d/);
  await seen.page.evaluate(`
    globalThis.shifts = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => { globalThis.shifts += entry.value; })).observe({ type: "layout-shift" });
    globalThis.told = 0;
    new MutationObserver(() => { globalThis.told++; }).observe(document.getElementById("verdict"), { childList: true, characterData: true, subtree: true });
  `);
  const path = () => seen.page.locator("#calls svg .hits").first().getAttribute("d");
  for (let i = 0; i < 3; i++) {
    const before = await path();
    await expect.poll(path).not.toBe(before);
  }
  expect(await seen.page.evaluate("[globalThis.shifts, globalThis.told]")).toEqual([0, 0]);
});

test("a rule opens its keys and its chart, a key its explanation; another browser shows the same at that address", async () => {
  const seen = await see(flood());
  const { page, scene } = seen;
  const rule = page.locator("#rules tbody tr", { has: page.getByText("5 hits per hour") });
  await rule.getByRole("link").click();
  await expect.poll(() => page.locator("#top-heading").innerText()).toBe("Most refused keys of edge/user");
  await expect
    .poll(() => page.locator("#calls li").first().innerText())
    .toMatch(/^Hits per second of edge\/user\s+all/);
  await openKey(seen, "user=alice");
  await expect.poll(() => explained(seen).innerText()).toMatch(/The rule 'user' applies\./);
  const address = page.url();
  expect(address).toBe(`${scene.url}#rule=edge%2Fuser&domain=edge&explain=user%3Dalice`);
  const other = await seeUrl(address);
  await expect.poll(() => explained(other).innerText()).toMatch(/The rule 'user' applies\..*0 of 5/s);
  await expect.poll(() => other.page.locator("#top-heading").innerText()).toContain("edge/user");
  await expectClean(other);
  await page.keyboard.press("Escape");
  expect(page.url()).toBe(`${scene.url}#rule=edge%2Fuser`);
  await rule.getByRole("link").click();
  await expect.poll(() => page.locator("#top-heading").innerText()).toBe("Most refused keys");
});

test("keys and rules are looked for and sorted, and the address says how", async () => {
  const seen = await see(flood());
  const { page, scene } = seen;
  const rules = () => page.locator("#rules tbody th").allInnerTexts();
  await page.getByLabel("Rules by").selectOption("most refused");
  await expect.poll(async () => (await rules())[1]).toMatch(/^user\s/);
  await page.getByLabel("Keys by").selectOption("asked");
  await expect.poll(() => page.locator("#top tbody th").allInnerTexts()).toContain("tenant=acme");
  await page.getByRole("searchbox", { name: "Find" }).fill("USER");
  await expect.poll(() => page.locator("#top tbody th").allInnerTexts()).toEqual(["user=alice"]);
  await expect.poll(rules).toEqual([expect.stringMatching(/^edge/), expect.stringMatching(/^user/)]);
  expect(page.url()).toBe(`${scene.url}#find=USER&sort=refused&order=asked`);
  await page.getByRole("searchbox", { name: "Find" }).fill("nowhere");
  await expect
    .poll(() => page.locator("#rules-note").innerText())
    .toBe("No rule of 6 limits has 'nowhere' in its name.");
  await expectClean(seen);
});

// Promise(operators): The page leaves no rule out in silence: Find asks the server for all, and pages show every one.
test("of 300 rules those that calls met are shown, the others are counted, found, and paged through", async () => {
  const seen = await see(manyRules());
  const { page } = seen;
  const rules = () => page.locator("#rules tbody tr");
  await expect.poll(() => page.locator("#rules-note").innerText()).toBe("5 of 306 limits: those that calls met.");
  await page.getByRole("searchbox", { name: "Find" }).fill("route_29");
  await expect.poll(() => page.locator("#rules-note").innerText()).toBe("11 found among 306 limits.");
  await expect.poll(() => rules().count()).toBe(12);
  await page.getByRole("searchbox", { name: "Find" }).fill("");
  await page.getByRole("link", { name: "301 without calls" }).click();
  await expect.poll(() => page.locator("#rules-note").innerText()).toBe("200 of 306 of edge.");
  await page.getByRole("link", { name: "Next rules (200 to 306)" }).click();
  await expect.poll(() => rules().count()).toBe(107);
  await page.getByRole("link", { name: "Only rules that calls met" }).click();
  await expect.poll(() => rules().count()).toBe(7);
  await expectClean(seen);
});

test("times are of one zone and one form, the reader's or UTC; charts of the last hour; a pause; all in the address but the pause", async () => {
  const seen = await see(blocked(), { timezoneId: "America/New_York" });
  const { page } = seen;
  await unlock(seen);
  await expect.poll(() => verdictOf(seen)).toMatch(/blocked by alice until/);
  const times = "[...new Set([...document.querySelectorAll('main time')].map((time) => time.textContent.length))]";
  expect(await page.evaluate(times)).toEqual([8]);
  expect(await page.locator("body").innerText()).not.toMatch(/\d{4}-\d\d-\d\dT/);
  const hour = async () => Number(/until (\d\d):/.exec(await verdictOf(seen))?.[1]);
  const local = await hour();
  await page.getByRole("link", { name: "UTC" }).click();
  await expect.poll(async () => ((await hour()) - local + 24) % 24).toBe(5);
  await page.getByRole("link", { name: "1 h" }).click();
  await expect.poll(() => page.locator("#calls-heading").innerText()).toBe("Last hour (UTC)");
  expect(page.url()).toMatch(/#span=hour&zone=utc$/);
  await page.getByRole("button", { name: "Pause" }).click();
  await expect.poll(() => page.locator("#live").innerText()).toMatch(/^paused, [3-9] s ago$/);
  await page.getByRole("button", { name: "Go on" }).click();
  await expect.poll(() => page.locator("#live").innerText()).toMatch(/^live, [01] s ago$/);
  await expectClean(seen);
});

test("a key opens the sheet at any length, also one that is hashed, and widens no page", async () => {
  const seen = await see(longKeys());
  const { page } = seen;
  const keys = page.locator("#top tbody th a");
  await expect
    .poll(() => keys.allInnerTexts())
    .toEqual(expect.arrayContaining([expect.stringMatching(/\u2026\S*team-search$/)]));
  expect(new Set(await keys.allInnerTexts()).size).toBe(await keys.count());
  for (const [width, height] of [
    [1_280, 800],
    [360, 800],
  ] as const) {
    await page.setViewportSize({ width, height });
    await expect.poll(() => page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
    await keys.filter({ hasText: "team-search" }).click();
    await expect.poll(() => explained(seen).innerText()).toMatch(/The rule 'organization_and_team' applies/);
    expect(await page.locator("#explain-heading").boundingBox()).toMatchObject({ y: expect.any(Number) });
    expect((await page.locator("#explain-heading").boundingBox())?.y).toBeLessThan(60);
    await page.keyboard.press("Escape");
  }
  await page.setViewportSize({ width: 1_280, height: 800 });
  await keys.filter({ hasText: "session_token" }).click();
  await expect.poll(() => explained(seen).innerText()).toMatch(/^Its descriptor is not known: a value is hashed/);
  await page.keyboard.press("Escape");
  await expectClean(seen);
});
