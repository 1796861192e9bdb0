// Who is shown the data of the operator's page: as /explain, whoever calls from this host itself or has a token. The
// token is in the page's memory and nowhere else.

import { expect, test } from "vitest";
import { startPrefixProxy } from "./support/prefix-proxy.ts";
import { healthy, type Scene, TOKEN } from "./support/scenes.ts";
import { endWithTest, expectClean, explain, see, seeUrl, verdictOf, withBrowser } from "./support/seen-scene.ts";

withBrowser();

/** The browser itself notes that an answer was an error. */
const NOTED = /401 \(Unauthorized\)/;
const guarded = () => healthy({ ADMIN_TOKEN: TOKEN });

test("without a token nothing is shown, and nothing was asked that would be refused", async () => {
  const seen = await see(guarded());
  await expect.poll(() => verdictOf(seen)).toBe("A token is required.");
  expect(await seen.page.locator("#data").isVisible()).toBe(false);
  expect(await seen.page.evaluate("document.activeElement.id")).toBe("token");
  expect(seen.scene.app.log.join("\n")).not.toContain("refused");
  await expectClean(seen);
});

test("a wrong token is said to be wrong, shows nothing, and is forgotten", async () => {
  const seen = await see(guarded());
  await seen.page.getByLabel("Token", { exact: true }).fill("not-a-token-of-theirs");
  await seen.page.getByLabel("Token", { exact: true }).press("Enter");
  await expect.poll(() => verdictOf(seen)).toBe("Invalid token.");
  expect(await seen.page.locator("#data").isVisible()).toBe(false);
  expect(await seen.page.getByLabel("Token", { exact: true }).inputValue()).toBe("");
  await expectClean(seen, NOTED);
});

// Promise(operators): The page's data is shown to callers who may use `/explain`, and the token is stored nowhere, or by choice in the tab.
test("the right token shows all, and lies in no address, storage or cookie, nor anywhere on the page", async () => {
  const seen = await see(guarded());
  const { page } = seen;
  const asked: string[] = [];
  page.on("request", (request) => asked.push(request.url()));
  await page.getByLabel("Token", { exact: true }).fill(TOKEN);
  await page.getByRole("button", { name: "Show" }).click();
  await expect.poll(() => verdictOf(seen)).toBe("All is well.");
  expect(await page.locator("#token-form").isVisible()).toBe(false);
  await explain(seen, "tenant=acme");
  await page.getByText("The rule 'tenant' applies.").waitFor();
  const places =
    "[localStorage, sessionStorage].map((all) => JSON.stringify(all)).join() + document.cookie + location.href";
  expect(await page.evaluate(places)).toBe(`{},{}${seen.scene.url}#domain=edge&explain=tenant%3Dacme`);
  expect(await page.content()).not.toContain(TOKEN);
  expect(asked.join("\n")).not.toContain(TOKEN);
  expect(asked.length).toBeGreaterThan(2);
  expect(await page.context().cookies()).toEqual([]);
  await expectClean(seen);
  await page.reload();
  await expect.poll(() => verdictOf(seen)).toBe("A token is required.");
});

test("a token that is kept by choice outlives a reload in its tab, and no refusal", async () => {
  const seen = await see(guarded());
  const { page } = seen;
  await page.getByLabel("Token", { exact: true }).fill(TOKEN);
  await page.getByLabel("Keep it in this tab").check();
  await page.getByRole("button", { name: "Show" }).click();
  await expect.poll(() => verdictOf(seen)).toBe("All is well.");
  await page.reload();
  await expect.poll(() => verdictOf(seen)).toBe("All is well.");
  expect(await page.evaluate("localStorage.length + document.cookie")).toBe("0");
  await page.route("**/state", (route) => route.fulfill({ status: 401, body: "401 no" }));
  await expect.poll(() => verdictOf(seen)).toBe("Invalid token.");
  expect(await page.evaluate("sessionStorage.length")).toBe(0);
});

test("a token that is taken away ends what is shown", async () => {
  const scene = await healthy({ ADMIN_TOKEN: TOKEN });
  endWithTest(() => scene.stop());
  const seen = await seeUrl(scene.url);
  await seen.page.getByLabel("Token", { exact: true }).fill(TOKEN);
  await seen.page.getByLabel("Token", { exact: true }).press("Enter");
  await expect.poll(() => verdictOf(seen)).toBe("All is well.");
  // As a service that was started with another token answers.
  await seen.page.route("**/state", (route) => route.fulfill({ status: 401, body: "401 no" }));
  await expect.poll(() => verdictOf(seen)).toBe("Invalid token.");
  expect(await seen.page.locator("#data").isVisible()).toBe(false);
  expect(await seen.page.locator("#who").innerText()).toBe("");
});

// Promise(operators): Behind a proxy or under a path the page wants a token, even from this host.
test.each([
  { name: "under a path of a proxy that says nothing of itself", open: behindPrefix },
  {
    name: "behind a proxy that says so",
    open: (scene: Scene) => seeUrl(scene.url, { extraHTTPHeaders: { "x-forwarded-for": "203.0.113.7" } }),
  },
])("$name a token is required, even from this host", async ({ open }) => {
  const scene = await healthy();
  endWithTest(() => scene.stop());
  const seen = await open(scene);
  await expect.poll(() => verdictOf(seen)).toBe("A token is required here.");
  expect(await seen.page.locator("#stale").innerText()).toMatch(
    /proxy \(x-forwarded-.*ADMIN_TOKEN or ADMIN_TOKEN_FILE/,
  );
  expect(await seen.page.locator("#data").isVisible()).toBe(false);
  expect(scene.app.log.join("\n")).not.toContain("refused");
  await expectClean(seen);
});

test("under a path of a proxy the page works, with a token", async () => {
  const scene = await healthy({ ADMIN_TOKEN: TOKEN });
  endWithTest(() => scene.stop());
  const seen = await behindPrefix(scene);
  await seen.page.getByLabel("Token", { exact: true }).fill(TOKEN);
  await seen.page.getByLabel("Token", { exact: true }).press("Enter");
  await expect.poll(() => verdictOf(seen)).toBe("All is well.");
  await expect.poll(() => seen.page.locator("#rules tbody tr").count()).toBeGreaterThan(3);
  await expectClean(seen);
});

async function behindPrefix(scene: Scene) {
  const proxy = await startPrefixProxy(scene.app.httpPort);
  endWithTest(() => proxy.stop());
  return seeUrl(proxy.url);
}
