// The operator's page in use: explaining and resetting, by mouse and by keyboard alone, while the server goes away and comes back, and
// while nobody looks.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { freePort } from "../support/redis-server.ts";
import type { SeenPage } from "./support/browser.ts";
import { flood, healthy, open } from "./support/scenes.ts";
import { endWithTest, expectClean, see, seeUrl, verdictOf, withBrowser } from "./support/seen-scene.ts";

withBrowser();

const explained = ({ page }: SeenPage) => page.locator("#explained");

async function explain(seen: SeenPage, text: string): Promise<void> {
  await seen.page.getByRole("textbox", { name: "Descriptor" }).fill(text);
  await seen.page.getByRole("button", { name: "Explain", exact: true }).click();
}

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
  await page.getByRole("button", { name: "Close" }).click();
  await expect.poll(() => row.innerText()).toMatch(/5 of 5\s+now\s+now$/);
  expect((await scene.app.hit({ user: "ann" })).overall_code).toBe("OK");
  const lines = scene.app.log.filter((line) => line.includes("buckets were reset"));
  expect(lines).toHaveLength(1);
  await expectClean(seen);
});

test("a descriptor that meets no rule, and one that can't be read, are answered in words", async () => {
  const seen = await see(open());
  await explain(seen, "tenent=acme");
  await expect
    .poll(() => explained(seen).innerText())
    .toMatch(/^No rule has key 'tenent'.*Did you mean 'tenant'\?.*no bucket/s);
  await explain(seen, '{"domain":"edge"');
  await expect.poll(() => explained(seen).innerText()).toMatch(/^Expected JSON/);
  await expectClean(seen);
});

test("Enter explains, Shift+Enter begins a line, and the answer says what it is of and when it came", async () => {
  const seen = await see(open());
  const { page, scene } = seen;
  const box = page.getByRole("textbox", { name: "Descriptor" });
  await box.fill("user=ann");
  await box.press("Shift+Enter");
  await box.pressSequentially("tenant=acme");
  expect(await box.inputValue()).toBe("user=ann\ntenant=acme");
  await box.press("Enter");
  await expect.poll(() => explained(seen).innerText()).toMatch(/^2 of 2 descriptors have a limit; /);
  await explain(seen, "user=ann");
  const of = page.locator("#explained-of");
  await expect.poll(() => of.innerText()).toMatch(/^edge: user=ann, at \d\d:\d\d:\d\d\.$/);
  await writeFile(join(scene.app.rulesDir, "rules.yaml"), "domain: edge\ndescriptors: [{ key: user }]\n");
  await scene.app.app.reload();
  // It was of rules that are no longer in force, so it is refreshed.
  await expect.poll(() => explained(seen).innerText()).toMatch(/unlimited|no bucket/);
  await explain(seen, "user=ann plan=free");
  await expect
    .poll(() => explained(seen).innerText())
    .toMatch(/^The value of user looks like two entries.*user=ann,plan=free/s);
  await expect.poll(() => of.innerText()).toMatch(/^edge: user=ann plan=free, at \d\d:\d\d:\d\d\.$/);
  await expectClean(seen);
});

// Promise(operators): The page can be used by keyboard alone.
test("keyboard alone: to the box, through a reset, and out again, always seeing where one is", async () => {
  const seen = await see(open());
  const { page, scene } = seen;
  await scene.app.hit({ user: "ann" });
  await expect.poll(() => verdictOf(seen)).toBe("All is well.");
  const tabTo = async (name: string) => {
    for (let i = 0; i < 30; i++) {
      await page.keyboard.press("Tab");
      const at = "(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim()";
      if ((await page.evaluate(at)) !== name) continue;
      expect(await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")).toBe("solid");
      return;
    }
    throw new Error(`no Tab leads to ${name}`);
  };
  await tabTo("Descriptor");
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
  await page.getByRole("link", { name: "Explain user=alice" }).click();
  await expect.poll(() => explained(seen).innerText()).toMatch(/The rule 'user' applies\./);
  const address = page.url();
  expect(address).toBe(`${scene.url}#rule=edge%2Fuser&domain=edge&explain=user%3Dalice`);
  const other = await seeUrl(address);
  await expect.poll(() => explained(other).innerText()).toMatch(/The rule 'user' applies\..*0 of 5/s);
  await expect.poll(() => other.page.locator("#top-heading").innerText()).toContain("edge/user");
  await expectClean(other);
  await page.goBack();
  expect(page.url()).toBe(`${scene.url}#rule=edge%2Fuser`);
  await rule.getByRole("link").click();
  await expect.poll(() => page.locator("#top-heading").innerText()).toBe("Most refused keys");
});

test("keys and rules are looked for and sorted, and the address says how", async () => {
  const seen = await see(flood());
  const { page, scene } = seen;
  const rules = () => page.locator("#rules tbody th").allInnerTexts();
  await page.getByLabel("Sort by").selectOption("most refused");
  await expect.poll(rules).toEqual(expect.arrayContaining([expect.stringContaining("edge/tenant#per-day")]));
  await expect.poll(async () => (await rules())[0]).toContain("edge/user");
  await page.getByLabel("Sort by").selectOption("most asked");
  await expect.poll(() => page.locator("#top tbody th").allInnerTexts()).toContain("tenant=acme");
  await page.getByLabel("Find").fill("ALI");
  await expect.poll(() => page.locator("#top tbody th").allInnerTexts()).toEqual(["user=alice"]);
  expect(await rules()).toEqual([]);
  expect(page.url()).toBe(`${scene.url}#find=ALI&sort=asked`);
  await expectClean(seen);
});
