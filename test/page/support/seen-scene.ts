// A scene and the page that shows it, both ended with the test; and what every test of the page asks of it.

import type { Browser, BrowserContextOptions } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { openPage, type SeenPage, startBrowser } from "./browser.ts";
import { type Scene, TOKEN } from "./scenes.ts";

const ends: (() => Promise<void>)[] = [];
let browser: Browser;

/** One browser for all tests of a file. */
export function withBrowser(): void {
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
  });
  afterAll(() => browser.close());
}

/** Ends with the test, before what was begun earlier. */
export function endWithTest(end: () => Promise<void>): void {
  ends.unshift(end);
}

/** Opens a page. */
export async function seeUrl(url: string, options: BrowserContextOptions = {}): Promise<SeenPage> {
  const seen = await openPage(browser, url, options);
  endWithTest(() => seen.close());
  return seen;
}

/** Opens the page of a scene. */
export async function see<S extends Pick<Scene, "url" | "stop">>(
  opened: Promise<S>,
  options: BrowserContextOptions = {},
): Promise<SeenPage & { readonly scene: S }> {
  const scene = await opened;
  endWithTest(() => scene.stop());
  return { ...(await seeUrl(scene.url, options)), scene };
}

// Columns that telephones leave out must leave their room to the others.
const UNUSED_WIDTHS = `[...document.querySelectorAll("thead")].filter((head) => head.offsetParent !== null).map((head) =>
  head.offsetWidth - [...head.querySelectorAll("th")].reduce((sum, cell) => sum + cell.offsetWidth, 0))`;

/** Types the operators' token. */
export async function unlock({ page }: SeenPage): Promise<void> {
  await page.getByLabel("Token", { exact: true }).fill(TOKEN);
  await page.getByLabel("Token", { exact: true }).press("Enter");
  await expect.poll(() => page.locator("#data").isVisible()).toBe(true);
}

/** Explains a descriptor in the sheet, which it opens if it is closed. */
export async function explain({ page }: SeenPage, text: string): Promise<void> {
  await page.locator("#data").waitFor();
  if (!(await page.locator("#sheet").isVisible())) await page.keyboard.press("e");
  await page.getByRole("textbox", { name: "Descriptor" }).fill(text);
  await page.getByRole("button", { name: "Explain", exact: true }).click();
}

/** Opens the sheet of a refused key. */
export function openKey({ page }: SeenPage, text: string): Promise<void> {
  return page.locator("#top tbody th").getByRole("link", { name: text }).click();
}

/** The three facts below the first line, by name. */
export async function factsOf({ page }: SeenPage): Promise<Readonly<Record<string, string>>> {
  const facts = await page.locator("#facts > div").allInnerTexts();
  return Object.fromEntries(facts.map((fact) => fact.split(/\n+/, 2)));
}

/** What stands there of all that is wrong. */
export const conditionsOf = ({ page }: SeenPage) => page.locator("#conditions > li").allInnerTexts();
export const verdictOf = ({ page }: SeenPage) => page.locator("#verdict").innerText();

/**
 * Nothing to complain of, in either scheme, wide or on a telephone; `expected` are complaints that belong to the state.
 */
export async function expectClean(seen: SeenPage, expected?: RegExp): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await seen.page.emulateMedia({ colorScheme });
    expect(await seen.barriers()).toEqual([]);
  }
  await seen.page.setViewportSize({ width: 360, height: 740 });
  expect(await seen.page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(360);
  for (const width of (await seen.page.evaluate(UNUSED_WIDTHS)) as number[]) expect(width).toBeLessThanOrEqual(2);
  expect(await seen.barriers()).toEqual([]);
  expect(seen.complaints(expected)).toEqual([]);
}
