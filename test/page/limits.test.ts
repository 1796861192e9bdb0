// Limits at run time on the operator's page: from the most refused key to a block, and back.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import type { SeenPage } from "./support/browser.ts";
import { flood, open, type Scene } from "./support/scenes.ts";
import { expectClean, see, withBrowser } from "./support/seen-scene.ts";

withBrowser();

const TOKEN = "a-token-of-the-operators";

async function seeWithToken(scene: Promise<Scene>): Promise<SeenPage & { readonly scene: Scene }> {
  const seen = await see(scene);
  await seen.page.getByLabel("Token").fill(TOKEN);
  await seen.page.getByLabel("Token").press("Enter");
  await expect.poll(() => seen.page.locator("#data").isVisible()).toBe(true);
  return seen;
}

const dialogOf = (page: Page) => page.locator("dialog[open]");
const listed = (page: Page) => page.locator("#limits tbody tr");

async function explain(page: Page, text: string): Promise<void> {
  await page.getByRole("textbox", { name: "Descriptor" }).fill(text);
  await page.getByRole("button", { name: "Explain", exact: true }).click();
}

// Promise(operators): The page blocks, raises and exempts one caller, after a question, and says in how many processes it is in force.
test("the most refused key is blocked from the page, is refused, is listed, and is left to its rule again", async () => {
  const seen = await seeWithToken(flood({ ADMIN_TOKEN: TOKEN }));
  const { page, scene } = seen;
  await page.getByRole("button", { name: "Block user=alice" }).click();
  await expect.poll(() => dialogOf(page).innerText()).toMatch(/^Block user=alice in edge\?.*Now: 5 hits per hour/s);
  expect(await seen.barriers()).toEqual([]);
  expect(await page.getByLabel("Ends").inputValue()).toBe("3600");
  await page.getByRole("button", { name: "Cancel" }).click();
  expect((await scene.app.hit({ user: "bob" })).overall_code).toBe("OK");
  expect(await page.locator("#limits-note").innerText()).toBe("None in force.");
  await page.getByRole("button", { name: "Block user=alice" }).click();
  await page.getByLabel("Note").fill("INC-1");
  await dialogOf(page).getByRole("button", { name: "Block" }).click();
  await expect
    .poll(() => dialogOf(page).innerText())
    .toMatch(/Now: Blocked: every call is refused\.\s+In force in 1 of 1 process\./);
  await page.getByRole("button", { name: "Close" }).click();
  const answer = await scene.app.hit({ user: "alice" });
  expect(JSON.stringify(answer)).toContain("blocked");
  await expect
    .poll(() => listed(page).innerText())
    .toMatch(
      /^user=alice\s+edge\s+Unset\s+blocked: every call is refused\s+set \S+Z by ADMIN_TOKEN: INC-1\s+\d\d:\d\d:\d\d.*\((?:in 1 h|in 59 min)\)/,
    );
  expect(await page.locator("#limits-note").innerText()).toBe("1 caller: 1 blocked.");
  await expectClean(seen);
  await page.getByRole("button", { name: "Unset user=alice" }).last().click();
  await dialogOf(page).getByRole("button", { name: "Unset" }).click();
  await expect
    .poll(() => dialogOf(page).innerText())
    .toMatch(/Now: The rule's limits\.\s+In force in 1 of 1 process\./);
  await page.getByRole("button", { name: "Close" }).click();
  await expect.poll(() => page.locator("#limits-note").innerText()).toBe("None in force.");
  expect(await listed(page).count()).toBe(0);
});

test("under an explanation one of a rule's limits is raised, a refusal is said, and a change by somebody else is noticed", async () => {
  const seen = await seeWithToken(open({ ADMIN_TOKEN: TOKEN, LIMITS_UNTIL_MAX: "1h" }));
  const { page, scene } = seen;
  await explain(page, "tenant=acme");
  await page.getByRole("button", { name: "Raise tenant=acme" }).click();
  await page.getByLabel("Limit", { exact: true }).selectOption("per-day");
  await page.getByLabel("New amount").fill("7");
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
  await page.getByLabel("New amount").fill("7");
  await page.getByLabel("Ends").selectOption("in 15 min");
  await dialogOf(page).getByRole("button", { name: "Raise" }).click();
  await expect.poll(() => dialogOf(page).innerText()).toMatch(/per-day: 7 hits per day.*In force in 1 of 1 process/s);
  await page.getByRole("button", { name: "Close" }).click();
  await expect.poll(() => page.locator("#explained").innerText()).toMatch(/per-day: 7 hits per day.*by ADMIN_TOKEN/s);
  await writeFile(join(scene.app.rulesDir, "rules.yaml"), "domain: edge\ndescriptors: [{ key: user }]\n");
  await scene.app.app.reload();
  await expect
    .poll(() => listed(page).locator(".warning").innerText())
    .toBe("No rule with limits matches, so it does nothing.");
  await expectClean(seen, /400 \(Bad Request\)|409 \(Conflict\)/);
});

test("without a token configured it says what to set, and offers nothing", async () => {
  const seen = await see(flood());
  const { page } = seen;
  await page.getByRole("link", { name: "Explain user=alice" }).waitFor();
  expect(await page.locator("#limits-note").innerText()).toBe(
    "None in force. This server has no token, so nobody may set any: set ADMIN_TOKEN or ADMIN_TOKEN_FILE, and restart it.",
  );
  expect(await page.getByRole("button", { name: /^(?:Raise|Block|Exempt|Unset)/ }).count()).toBe(0);
  await expectClean(seen);
});
