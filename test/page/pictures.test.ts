// The pictures of the docs, taken of the tests' own scenes. `npm run page:pictures` writes them to docs/pictures;
// otherwise they are taken and thrown away, so that they can be taken.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { DIGEST_FILE, digestOfPictures } from "./support/made-of.ts";
import { healthy, type Scene, setLimits, storeAway, TOKEN } from "./support/scenes.ts";
import { see, unlock, withBrowser } from "./support/seen-scene.ts";

withBrowser();

const folder = process.env.PAGE_PICTURES ?? temporaryFolder("headgate-pictures");
/** Charts that are worth a look take so many steps, of some four seconds each. */
const STEPS = process.env.PAGE_PICTURES === undefined ? 2 : 280;

const PICTURES: readonly {
  name: string;
  scene: () => Promise<Scene>;
  scheme: "light" | "dark";
  shows: RegExp;
  size: { width: number; height: number };
}[] = [
  {
    name: "page-flood",
    scene: healthyWithToken,
    scheme: "light",
    shows: /of calls refused/,
    size: { width: 900, height: 920 },
  },
  {
    name: "page-store-away",
    scene: storeAway,
    scheme: "dark",
    shows: /Redis has been down/,
    size: { width: 900, height: 520 },
  },
];

test.each(PICTURES)("$name shows what it is there for", async ({ name, scene, scheme, shows, size }) => {
  const seen = await see(scene(), { colorScheme: scheme, viewport: size });
  const { page, scene: made } = seen;
  // An operator with a token is offered more.
  if (name === "page-flood") await unlock(seen);
  for (let i = 0; i < STEPS; i++) {
    if (name === "page-flood" && i === STEPS / 2) made.call({ user: "alice" }, 40);
    await page.waitForTimeout(250);
    made.skip(3.5);
  }
  await expect.poll(() => page.locator("#verdict").innerText()).toMatch(shows);
  await expect.poll(() => page.locator("#calls svg .hits").first().getAttribute("d")).toMatch(/^M/);
  const picture = await page.screenshot();
  // Width and height stand in the first chunk of a PNG.
  expect([picture.readUInt32BE(16), picture.readUInt32BE(20)]).toEqual([size.width, size.height]);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${name}.png`), picture);
  writeFileSync(join(folder, DIGEST_FILE), digestOfPictures());
});

async function healthyWithToken(): Promise<Scene> {
  const scene = await healthy({ ADMIN_TOKEN: TOKEN });
  const entries = [{ key: "tenant", value: "acme" }];
  const raised = { domain: "edge", entries, limit: "per-second", requests_per_unit: 500, note: "launch day" };
  await setLimits(scene, [{ ...raised, until_seconds: 7_200 }]);
  return scene;
}
