// What stands on the operator's page in each state of the service, in a real browser: light and dark, wide and on a
// telephone, without a complaint of the browser and without a barrier that axe knows.

import { expect, test } from "vitest";
import { Authority } from "../support/certificates.ts";
import { flood, healthy, open, rulesRefused, storeAway, storeHangs, unmatched } from "./support/scenes.ts";
import { conditionsOf, expectClean, explain, openKey, see, verdictOf, withBrowser } from "./support/seen-scene.ts";

withBrowser();

test("all is well: it says so, and rules and calls have their numbers", async () => {
  const seen = await see(healthy());
  await expect.poll(() => verdictOf(seen)).toBe("All is well.");
  expect(await conditionsOf(seen)).toEqual([]);
  const row = seen.page.getByRole("row", { name: /tenant per-second/ });
  await expect.poll(() => row.locator(".hits-now").innerText()).toMatch(/^\d+(\.\d)?$/);
  expect(await row.innerText()).toMatch(/50 hits per second, sliding window.*\d of 50\/s/s);
  expect(await row.getByRole("link").getAttribute("title")).toBe("edge/tenant#per-second, rules.yaml:4:5");
  await expect.poll(() => seen.page.locator("#calls output").first().innerText()).toMatch(/^all [1-9]/);
  await expectClean(seen);
});

test("charts move while one looks, and rest while nobody can see them", async () => {
  const seen = await see(healthy());
  const path = () => seen.page.locator("#calls svg .hits").first().getAttribute("d");
  await expect.poll(path).toMatch(/^M.+L/);
  const before = await path();
  await expect.poll(path).not.toBe(before);
});

test("the pointer over one chart, or arrow keys, show the values of their time in all, until they leave it", async () => {
  const seen = await see(healthy());
  const { page } = seen;
  const values = page.locator("#calls li:visible output");
  await expect.poll(() => values.first().innerText()).toMatch(/^all [1-9]/);
  expect(await page.locator("#calls .tick:visible").first().innerText()).toMatch(/^\d\d:\d\d(?::[03]0)?$/);
  // A chart covers a minute at least, of whose left edge nothing is known yet.
  await page
    .locator("#calls .plot")
    .first()
    .hover({ position: { x: 5, y: 30 } });
  const shown = async () => (await values.allInnerTexts()).map((text) => text.trim());
  expect(await shown()).toEqual(["all - refused -", "p99 - p50 -"]);
  expect(await page.locator("#calls .pointer:visible").allInnerTexts()).toEqual(
    Array(2).fill(expect.stringMatching(/^\d\d:\d\d:\d\d$/)),
  );
  await page.locator("#verdict").hover();
  expect(await values.first().innerText()).toMatch(/^all [1-9]/);
  const plot = page.getByRole("slider", { name: /^Calls per second: / });
  await plot.focus();
  for (let steps = 0; steps < 85; steps++) await page.keyboard.press("ArrowLeft");
  await expectClean(seen);
  expect(await plot.getAttribute("aria-valuetext")).toMatch(/^\d\d:\d\d:\d\d: all - refused -$/);
  expect((await shown())[1]).toBe("p99 - p50 -");
  await page.keyboard.press("Tab");
  await expect.poll(() => values.first().innerText()).toMatch(/^all [1-9]/);
});

// Promise(operators): The operator's page says that all is well, or what is wrong, since when and what to do; rejected rules by file and line.
test("Redis is away: the store is named, since when, and what to do; that it is back shows, too", async () => {
  const seen = await see(storeAway());
  const store =
    /^Redis at 127\.0\.0\.1:\d+ refuses connections: nothing listens there\.\s*critical, since \d\d:\d\d:\d\d \(\d+ s\)\s+Each rule's on_store_failure.*Runbook: docs\/operations\.md#headgatedegraded\s.*\d+ details?/s;
  // One cause, one alarm: what comes of it is below, its breaker, too, if enough calls were under way.
  await expect.poll(() => conditionsOf(seen)).toEqual([expect.stringMatching(store)]);
  expect(await verdictOf(seen)).toMatch(/^Redis has been down for \d+ s: /);
  const passed = seen.page.locator("#calls li", { hasText: "Passed undecided per second" }).locator("output");
  await expect.poll(() => passed.innerText()).toMatch(/^passed [1-9]/);
  // Details are a table.
  await seen.page.locator("#conditions summary").click();
  await expect
    .poll(() => seen.page.locator("#conditions table tbody tr").first().innerText())
    .toMatch(/^STORE_\w+, on_store_failure: allow\s+\d+\s+\d+\s+\d\d:\d\d:\d\d\s+\d\d:\d\d:\d\d$/);
  await expectClean(seen);
  // The rule is explained without the store.
  await seen.page.setViewportSize({ width: 1_280, height: 800 });
  await explain(seen, "tenant=acme");
  await expect
    .poll(() => seen.page.locator("#explained").innerText())
    .toMatch(/^The rule 'tenant' applies\..*What is left in the buckets is not known: STORE_[A-Z_]+: Redis .*\.$/s);
  await seen.scene.bringBack();
  await expect
    .poll(() => conditionsOf(seen))
    .not.toEqual(expect.arrayContaining([expect.stringContaining("refuses connections")]));
});

test("Redis hangs: its breaker is named until it answers again", async () => {
  const seen = await see(storeHangs());
  const breaker = expect.stringMatching(/^Redis at \S+ accepts connections but does not answer.*critical, since/s);
  await expect.poll(() => conditionsOf(seen)).toEqual(expect.arrayContaining([breaker]));
  await expect
    .poll(() => seen.page.locator("#conditions .details").first().textContent())
    .toMatch(/The breaker of Redis is (open|probing)/);
  await expectClean(seen);
  seen.scene.goOn();
  await expect.poll(() => conditionsOf(seen)).not.toEqual(expect.arrayContaining([breaker]));
});

// Promise(operators): The operator's page says that all is well, or what is wrong, since when and what to do; rejected rules by file and line.
test("rules are refused: each mistake stands there with file and line", async () => {
  const seen = await see(rulesRefused());
  await expect.poll(() => verdictOf(seen)).toBe("New rules are rejected.");
  const [said = ""] = await conditionsOf(seen);
  expect(said).toContain("The previous rules stay active.");
  expect(said).not.toContain("`");
  expect(await seen.page.locator("#conditions .advice code").first().innerText()).toBe("headgate check");
  expect(said).toMatch(/rules\.yaml:5:5: error: .*rate_limitz.*Did you mean 'rate_limit'\?/);
  await expectClean(seen);
});

test("a flood of one key: key, rule and since when are the first line and the first key, which leads to an explanation", async () => {
  const seen = await see(flood());
  const { page } = seen;
  await expect
    .poll(() => verdictOf(seen))
    .toMatch(/^\d+ % of calls refused since \d\d:\d\d:\d\d, mostly user=alice by rule user of edge\.$/);
  const key = page.locator("#top tbody tr").first();
  await expect.poll(() => key.innerText()).toMatch(/^user=alice\s+user\s+edge\s+\d+\s+\d+ %\s+\d+\s+\d\d:\d\d:\d\d/);
  const rule = page.locator("#rules tbody tr", { has: page.getByText("5 hits per hour") });
  await expect.poll(() => rule.locator(".refused-now").innerText()).toMatch(/^[1-9]/);
  await openKey(seen, "user=alice");
  await expect.poll(() => page.locator("#explained").innerText()).toMatch(/The rule 'user' applies\..*0 of 5/s);
  await expectClean(seen);
});

test("descriptors meet no rule: the domain and the keys of one are named, a domain without rules, too", async () => {
  const seen = await see(unmatched());
  await expect.poll(() => verdictOf(seen)).toBe("2 warnings.");
  expect((await conditionsOf(seen)).toSorted()).toEqual([
    expect.stringMatching(/^Calls name domain egde, which has no rules/),
    expect.stringMatching(/^Descriptors of domain edge match no rule.*One had the keys tenent, plan\./),
  ]);
  await expectClean(seen);
});

test("the certificate has expired: it is said what callers get of it", async () => {
  const { certFile, keyFile } = new Authority().issueFor(-1, "headgate.test");
  const tls = { GRPC_SERVER_USE_TLS: "true", GRPC_SERVER_TLS_CERT: certFile, GRPC_SERVER_TLS_KEY: keyFile };
  const seen = await see(open(tls));
  await expect
    .poll(() => verdictOf(seen))
    .toBe("The certificate of the gRPC port has expired: callers that check it get no decision. 1 more to check.");
  expect(await conditionsOf(seen)).toEqual([
    expect.stringMatching(/^The certificate of the gRPC port has expired: callers that check it get no decision\./),
    expect.stringMatching(/^Callers may reject the certificates in force: /),
  ]);
  await expectClean(seen);
});
