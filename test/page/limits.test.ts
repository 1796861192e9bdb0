// Limits at run time on the operator's page: from the most refused key to a block, and back.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import type { SeenPage } from "./support/browser.ts";
import { blocked, flood, open, type Scene, TOKEN } from "./support/scenes.ts";
import { expectClean, explain, openKey, see, unlock, verdictOf, withBrowser } from "./support/seen-scene.ts";

withBrowser();

async function seeWithToken(scene: Promise<Scene>): Promise<SeenPage & { readonly scene: Scene }> {
  const seen = await see(scene);
  await unlock(seen);
  return seen;
}

const dialogOf = (page: Page) => page.locator("dialog[open]");
const listed = (page: Page) => page.locator("#limits tbody tr");

// Promise(operators): The page blocks, raises and exempts one caller, after a question, and says in how many processes it is in force.
test("the most refused key is blocked from the page, is refused, is listed, and is left to its rule again", async () => {
  const seen = await seeWithToken(flood({ ADMIN_TOKEN: TOKEN }));
  const { page, scene } = seen;
  await openKey(seen, "user=alice");
  await page.getByRole("button", { name: "Block user=alice" }).click();
  await expect.poll(() => dialogOf(page).innerText()).toMatch(/^Block user=alice in edge\?.*Now: 5 hits per hour/s);
  expect(await seen.barriers()).toEqual([]);
  expect(await page.getByLabel("Ends").inputValue()).toBe("3600");
  await page.getByRole("button", { name: "Cancel" }).click();
  expect((await scene.app.hit({ user: "bob" })).overall_code).toBe("OK");
  expect(await page.locator("#limits-note").innerText()).toBe("None in force.");
  await page.getByRole("button", { name: "Block user=alice" }).click();
  await page.getByLabel("Note").fill("INC-1");
  await expect.poll(() => dialogOf(page).innerText()).toMatch(/Before: 5 hits per hour.*After: blocked/s);
  await dialogOf(page).getByRole("button", { name: "Block" }).click();
  await expect
    .poll(() => dialogOf(page).innerText())
    .toMatch(/Now: Blocked: every call is refused\.\s+In force in 1 of 1 process\./);
  await dialogOf(page).getByRole("button", { name: "Close" }).click();
  const answer = await scene.app.hit({ user: "alice" });
  expect(JSON.stringify(answer)).toContain("blocked");
  await expect
    .poll(() => listed(page).innerText())
    .toMatch(
      /^user=alice\s+edge\s+Unset\s+blocked: every call is refused\s+set at \d\d:\d\d:\d\d by ADMIN_TOKEN: INC-1\s+\d\d:\d\d:\d\d.*\((?:in 1 h|in 59 min)\)/,
    );
  expect(await page.locator("#limits-note").innerText()).toBe("1 caller: 1 blocked.");
  await expectClean(seen);
  await page.setViewportSize({ width: 1_280, height: 800 });
  await page.getByRole("button", { name: "Close", exact: true }).click();
  await listed(page).getByRole("button", { name: "Unset user=alice" }).click();
  await dialogOf(page).getByRole("button", { name: "Unset" }).click();
  await expect
    .poll(() => dialogOf(page).innerText())
    .toMatch(/Now: The rule's limits\.\s+In force in 1 of 1 process\./);
  await dialogOf(page).getByRole("button", { name: "Close" }).click();
  await expect.poll(() => page.locator("#limits-note").innerText()).toBe("None in force.");
  expect(await listed(page).count()).toBe(0);
});

test("under an explanation one of a rule's limits is raised, a refusal is said, and a change by somebody else is noticed", async () => {
  const seen = await seeWithToken(open({ ADMIN_TOKEN: TOKEN, LIMITS_UNTIL_MAX: "1h" }));
  const { page, scene } = seen;
  await explain(seen, "tenant=acme");
  await page.getByRole("button", { name: "Raise tenant=acme" }).click();
  await page.getByLabel("Limit", { exact: true }).selectOption("per-day");
  await page.getByLabel("Hits per day (now 100,000)").fill("7");
  await page.getByLabel("Ends").selectOption("in 1 d");
  await dialogOf(page).getByRole("button", { name: "Raise" }).click();
  await expect
    .poll(() => dialogOf(page).innerText())
    .toMatch(/Not done: expected an end within the 1 h of LIMITS_UNTIL_MAX/);
  expect(await seen.barriers()).toEqual([]);
  const body = {
    limits: [{ domain: "edge", entries: [{ key: "tenant", value: "acme" }], exempt: true, until_seconds: 60 }],
  };
  const headers = { authorization: `Bearer ${TOKEN}` };
  await scene.app.http("/limits", { method: "PUT", body: JSON.stringify(body), headers });
  await page.getByLabel("Ends").selectOption("in 15 min");
  await dialogOf(page).getByRole("button", { name: "Raise" }).click();
  await expect.poll(() => dialogOf(page).innerText()).toMatch(/expected the limit that was shown/);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Raise tenant=acme" }).click();
  await expect
    .poll(() => dialogOf(page).innerText())
    .toMatch(/Now: The rule 'tenant' applies; set at run time.*exempt/);
  await page.getByLabel("Limit", { exact: true }).selectOption("per-day");
  await page.getByLabel("Hits per day (now 100,000)").fill("7");
  await page.getByLabel("Ends").selectOption("in 15 min");
  await dialogOf(page).getByRole("button", { name: "Raise" }).click();
  await expect.poll(() => dialogOf(page).innerText()).toMatch(/per-day: 7 hits per day.*In force in 1 of 1 process/s);
  await dialogOf(page).getByRole("button", { name: "Close" }).click();
  await expect.poll(() => page.locator("#explained").innerText()).toMatch(/per-day: 7 hits per day.*by ADMIN_TOKEN/s);
  await writeFile(join(scene.app.rulesDir, "rules.yaml"), "domain: edge\ndescriptors: [{ key: user }]\n");
  await scene.app.app.reload();
  await expect
    .poll(() => listed(page).locator(".warning").innerText())
    .toBe("No rule with limits matches, so it does nothing.");
  await expectClean(seen, /400 \(Bad Request\)|409 \(Conflict\)/);
});

// Promise(operators): A blocked caller is no incident: the page says who blocked it until when and why, and when its next call passes.
test("a blocked caller is told apart: all is well, by whom, until when and why, and its next call passes at the end", async () => {
  const seen = await seeWithToken(blocked());
  const { page } = seen;
  await expect
    .poll(() => verdictOf(seen))
    .toMatch(/^All is well\. \d+ % refused: user=alice, blocked by alice until \d\d:\d\d:\d\d \(INC-1234\)\.$/);
  const row = page.locator("#top tbody tr").first();
  expect(await row.locator(".badge").innerText()).toBe("blocked");
  await row.getByRole("link").click();
  await expect.poll(() => page.locator("#explained table").innerText()).toMatch(/\d\d:\d\d:\d\d, when the block ends/);
  expect(await page.getByRole("button", { name: /^Raise/ }).count()).toBe(0);
  await expectClean(seen);
});

test("a limit of tokens is raised with its burst until a time of the page's zone, and what it would do is shown before", async () => {
  const seen = await seeWithToken(open({ ADMIN_TOKEN: TOKEN }));
  const { page, scene } = seen;
  await explain(seen, "plan=free,api_key=k-17");
  await page.getByRole("button", { name: "Raise plan=free,api_key=k-17" }).click();
  await page.getByLabel("Tokens per second (now 10)").fill("20");
  await page.getByLabel("Burst, empty for as before (now 20)").fill("60");
  await page.getByLabel("Ends").selectOption("at a time");
  const endMs = Math.ceil(Date.now() / 60_000) * 60_000 + 7_200_000;
  await page.getByLabel("Time (UTC)").fill(new Date(endMs).toISOString().slice(0, 16));
  await expect
    .poll(() => page.locator("#question-preview").innerText())
    .toMatch(/^Before: 10 tokens per second, burst 20.*After: 20 tokens per second, burst 60.*until \d\d:\d\d:00\.$/);
  expect(await seen.barriers()).toEqual([]);
  await dialogOf(page).getByRole("button", { name: "Raise" }).click();
  await expect.poll(() => dialogOf(page).innerText()).toMatch(/In force in 1 of 1 process/);
  const headers = { authorization: `Bearer ${TOKEN}` };
  const { limits } = (await (await scene.app.http("/limits", { headers })).json()) as { limits: { until: string }[] };
  expect(limits.map(({ until }) => Date.parse(until))).toEqual([endMs]);
  await expectClean(seen);
});

test("without a token configured it says what to set, and offers nothing", async () => {
  const seen = await see(flood());
  const { page } = seen;
  await page.locator("#top tbody th").getByRole("link", { name: "user=alice" }).waitFor();
  expect(await page.locator("#limits-note").innerText()).toBe(
    "None in force. This server has no token, so nobody may set any: set ADMIN_TOKEN or ADMIN_TOKEN_FILE, and restart it.",
  );
  expect(await page.getByRole("button", { name: /^(?:Raise|Block|Exempt|Unset)/ }).count()).toBe(0);
  await expectClean(seen);
});
