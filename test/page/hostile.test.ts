// What callers send stays text on the operator's page, wherever it stands there, and can't break its layout.

import { expect, test } from "vitest";
import { open } from "./support/scenes.ts";
import { conditionsOf, expectClean, explain, see, withBrowser } from "./support/seen-scene.ts";

withBrowser();

const HOSTILE = [
  "<img src=x onerror=alert(1)><script>alert(2)</script>",
  "x".repeat(16_384),
  "\u202eevil\u2066\u200f",
  "\u001b[31mred\0\u0007\r\n",
  "\"}]}'`&amp;",
];

// Promise(operators): Values of callers stay text on the page.
test("values of callers stay text: markup, 16 KB without a space, marks of direction, control characters, quotes", async () => {
  const seen = await see(open());
  const { page, scene } = seen;
  page.on("dialog", () => expect.fail("a script of a caller ran"));
  for (const value of HOSTILE) {
    for (let i = 0; i < 8; i++) await scene.app.hit({ user: value });
    await scene.app.ask({
      domain: value.slice(0, 200),
      descriptors: [{ entries: [{ key: value.slice(0, 400), value }] }],
    });
    await scene.app.hit({ [value.slice(0, 400)]: value });
  }
  // Each is a domain without rules, and one domain has descriptors without a rule.
  await expect.poll(() => conditionsOf(seen)).toHaveLength(HOSTILE.length + 1);
  for (const value of HOSTILE) {
    const said = page.locator("#explained");
    await explain(seen, JSON.stringify([{ entries: [{ key: "user", value }] }]));
    await expect.poll(() => said.innerText()).toMatch(/The rule 'user' applies|text of at most 4096 bytes/);
  }
  expect(await page.locator("img, main script").count()).toBe(0);
  const text = await page.locator("body").innerText();
  for (const hidden of ["\u202e", "\u2066", "\u200f", "\u001b", "\0", "\u0007"]) expect(text).not.toContain(hidden);
  expect(text).toContain("<img src=x onerror=alert(1)>");
  await expectClean(seen, /400 \(Bad Request\)/);
});

// Promise(operators): Values of callers stay text on the page.
test("so do values and notes of limits at run time, in the list and in the question", async () => {
  const token = "a-token-of-the-operators";
  const seen = await see(open({ ADMIN_TOKEN: token }));
  const { page, scene } = seen;
  page.on("dialog", () => expect.fail("a script of a caller ran"));
  // Longer values can have no limit of their own.
  const limits = HOSTILE.map((value) => value.slice(0, 250)).map((text) => ({
    domain: "edge",
    entries: [{ key: "user", value: text }],
    block: true,
    note: text,
  }));
  const headers = { authorization: `Bearer ${token}` };
  const answer = await scene.app.http("/limits", { method: "PUT", body: JSON.stringify({ limits }), headers });
  expect(await answer.text()).not.toContain(`"outcome": "refused"`);
  await page.getByLabel("Token", { exact: true }).fill(token);
  await page.getByLabel("Token", { exact: true }).press("Enter");
  const rows = page.locator("#limits tbody tr");
  await expect.poll(() => rows.count()).toBe(HOSTILE.length);
  for (let i = 0; i < HOSTILE.length; i++) {
    await rows.nth(i).getByRole("button").click();
    await expect.poll(() => page.locator("#question-now").innerText()).toMatch(/blocked: every call is refused/);
    expect(await seen.barriers()).toEqual([]);
    await page.getByRole("button", { name: "Cancel" }).click();
  }
  await rows.filter({ hasText: "<img" }).getByRole("button").click();
  const text = await page.locator("body").innerText();
  expect(text).toContain("Unset user=<img src=x onerror=alert(1)>");
  for (const hidden of ["\u202e", "\u2066", "\u200f", "\u001b", "\0", "\u0007"]) expect(text).not.toContain(hidden);
  expect(await page.locator("img, main script, dialog script").count()).toBe(0);
  await expectClean(seen);
});
