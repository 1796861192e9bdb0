// All scenes at three widths in both schemes, to look at. `npm run page:contact-sheet` writes them to
// .cache/contact-sheet; otherwise one is taken and thrown away, so that they can be taken.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.ts";
import * as scenes from "./support/scenes.ts";
import { see, unlock, withBrowser } from "./support/seen-scene.ts";

withBrowser();

const given = process.env.CONTACT_SHEET;
const folder = given ?? temporaryFolder("headgate-contact-sheet");
const WIDTHS = given === undefined ? [360] : [360, 1280, 1600];
/** So many steps of four seconds fill the charts. */
const STEPS = given === undefined ? 1 : 45;

const SCENES: Readonly<Record<string, () => Promise<Pick<scenes.Scene, "url" | "skip" | "stop">>>> = {
  nothing: scenes.open,
  flood: scenes.flood,
  blocked: scenes.blocked,
  "store-away": scenes.storeAway,
  "bad-rules": scenes.rulesRefused,
  "dead-limit": scenes.deadLimit,
  unmatched: scenes.unmatched,
  "two-processes": scenes.twoProcesses,
  "300-rules": scenes.manyRules,
  "long-keys": scenes.longKeys,
};
const only = process.env.SCENES?.split(",");
const taken = Object.keys(SCENES).filter((name) =>
  given === undefined ? name === "flood" : only?.includes(name) !== false,
);

test.each(taken)("%s", async (name) => {
  const seen = await see((SCENES[name] ?? scenes.open)());
  const { page, scene } = seen;
  if (name === "blocked") await unlock(seen);
  for (let i = 0; i < STEPS; i++) {
    await page.waitForTimeout(250);
    scene.skip(3.7);
  }
  await expect.poll(() => page.locator("#verdict").innerText()).not.toMatch(/Asking/);
  mkdirSync(folder, { recursive: true });
  for (const width of WIDTHS) {
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: width === 360 ? 800 : 900 });
      await page.waitForTimeout(100);
      const picture = await page.screenshot({ fullPage: true });
      writeFileSync(join(folder, `${name}-${width}-${colorScheme}.png`), picture);
    }
  }
  const links = page.locator("#top tbody th a");
  if ((await links.count()) === 0) return;
  await page.setViewportSize({ width: 1280, height: 800 });
  await links.first().click();
  await page.waitForTimeout(1_000);
  writeFileSync(join(folder, `${name}-sheet-1280.png`), await page.screenshot());
  await page.setViewportSize({ width: 360, height: 800 });
  writeFileSync(join(folder, `${name}-sheet-360.png`), await page.screenshot());
});
