// Who, by what, since when, is it the store, what was before, who did something about it: each stands in the first view
// of a screen and of a telephone, without a scroll, a pointer or a click.

import { describe, expect, test } from "vitest";
import { blocked, flood, rulesRefused, type Scene, setLimits, storeAway, TOKEN } from "./support/scenes.ts";
import { see, unlock, withBrowser } from "./support/seen-scene.ts";

withBrowser();

const TIME = "\\d\\d:\\d\\d:\\d\\d";
const BEFORE = new RegExp(`Before\\s+at ${TIME} \\S+ calls/s, `);

interface Answers {
  readonly scene: () => Promise<Scene>;
  readonly isLocked?: true;
  /** By question. */
  readonly says: Readonly<Record<string, RegExp>>;
}

const SCENES: Readonly<Record<string, Answers>> = {
  "a flood": {
    scene: flood,
    says: {
      "who, by what, since when": new RegExp(
        `% of calls refused since ${TIME}, mostly user=alice by rule user of edge`,
      ),
      "is it the store": /Store\s+memory/,
      before: BEFORE,
      "who did something": new RegExp(`Last change\\s+none; rules since ${TIME}`),
    },
  },
  "a flood about which somebody did something": {
    scene: async () => {
      const scene = await flood({ ADMIN_TOKEN: TOKEN });
      const entries = [{ key: "user", value: "alice" }];
      await setLimits(scene, [{ domain: "edge", entries, requests_per_unit: 9, note: "INC-7" }]);
      return scene;
    },
    isLocked: true,
    says: {
      "who, by what": /mostly user=alice by rule user of edge/,
      "who did something": new RegExp(`user=alice got other amounts by ADMIN_TOKEN \\(INC-7\\) at ${TIME}`),
    },
  },
  "a blocked caller": {
    scene: blocked,
    isLocked: true,
    says: {
      "who, by whom, until when, why": new RegExp(`user=alice, blocked by alice until ${TIME} \\(INC-1234\\)`),
      "is it the store": /Store\s+memory/,
      before: BEFORE,
      "who did something": new RegExp(`user=alice was blocked by alice \\(INC-1234\\) at ${TIME}`),
    },
  },
  "a store that is away": {
    scene: storeAway,
    says: {
      "what callers get": /Redis has been down for \S+.*: \d+ % of calls pass without limits; login is refused/,
      "since when": new RegExp(`critical, since ${TIME}`),
      "is it the store": /Store\s+Redis away/,
      before: BEFORE,
    },
  },
  "rejected rules": {
    scene: rulesRefused,
    says: {
      "what, since when": new RegExp(`New rules are rejected\\.[\\s\\S]*critical, since ${TIME}`),
      "is it the store": /Store\s+memory/,
      before: BEFORE,
      "who did something": new RegExp(`Last change\\s+none; rules since ${TIME}`),
    },
  },
};

/** The text of all that lies whole within the view. */
const IN_VIEW = `(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT);
  const seen = [];
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const { top, bottom, left, right, height } = node.getBoundingClientRect();
    const isWhole = height > 0 && top >= 0 && bottom <= innerHeight && left >= 0 && right <= innerWidth;
    if (isWhole && node.matches("#verdict, #facts > div, #store, #conditions > li")) seen.push(node.innerText);
  }
  return seen.join("\\n");
})()`;

// Promise(operators): Who is refused, by what, since when, whether it is the store, what was before and who did something stand in the first view.
describe.each(Object.entries(SCENES))("%s", (_, { scene: made, isLocked, says }) => {
  test("is answered at first sight, on a screen and on a telephone", async () => {
    const seen = await see(made(), { viewport: { width: 1_280, height: 800 } });
    const { page, scene } = seen;
    if (isLocked) await unlock(seen);
    // What was before is known after two minutes.
    for (let i = 0; i < 9; i++) {
      await page.waitForTimeout(1_100);
      scene.skip(15);
    }
    for (const [width, height] of [
      [1_280, 800],
      [360, 800],
    ] as const) {
      await page.setViewportSize({ width, height });
      for (const answer of Object.values(says)) await expect.poll(() => page.evaluate(IN_VIEW)).toMatch(answer);
    }
  });
});
