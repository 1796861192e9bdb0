// The playground as a plain file server gives it to a real Chromium: its answers are those of the commands, and a link holds it all.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { buildPlayground } from "../../playground/build.mjs";
import type { PlayedCall } from "../../playground/engine.ts";
import { EXAMPLES } from "../../playground/examples.ts";
import { COMPILING, DECIDING } from "../../playground/settings.ts";
import { compileOptions, readSettings } from "../../src/settings/settings.ts";
import { explainRules } from "../../src/tools/cli/explain-rules.ts";
import { virtualSettings } from "../../src/tools/cli/rules-source.ts";
import { testFiles } from "../../src/tools/cli/test-files.ts";
import { RecordedTerminal } from "../support/recorded-terminal.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { openPage, startBrowser } from "./support/browser.ts";
import { asTexts, generatedCases } from "./support/played-cases.ts";

const BYTES_MAX = 250_000;
/** Each case makes a store, whose reserved memory goes with its page. */
const CASES_PER_PAGE = 100;
const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};
/** Which only a shell needs: a blank may stand there for a comma. */
const UNMET_HINT = /\nNo limit for descriptor [^\n]*\n$/;
/** Limits count nothing beyond that in a case. */
const DURATION_US_MAX = 3_650 * 86_400_000_000;

interface PlayedAll {
  readonly problems: readonly string[];
  readonly calls: readonly PlayedCall[];
  readonly explained: string;
}

const folder = temporaryFolder("playground");
let server: Server;
let browser: Browser;
let url: string;

beforeAll(async () => {
  await buildPlayground(folder);
  // No headers but the type, and nothing that is not a file.
  server = createServer(({ url: path = "/" }, answer) => {
    const name = path === "/" ? "index.html" : path.slice(1);
    if (!readdirSync(folder).includes(name)) return void answer.writeHead(404).end();
    answer.writeHead(200, { "content-type": TYPES[extname(name)] }).end(readFileSync(join(folder, name)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  browser = await startBrowser();
});

afterAll(async () => {
  await browser.close();
  server.closeAllConnections();
  server.close();
});

test("takes 250 KB compressed at most, everything included", () => {
  const sizes = readdirSync(folder).map((name) => gzipSync(readFileSync(join(folder, name))).length);
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(BYTES_MAX);
});

test("decides by the settings that a service has which nobody has set up", () => {
  const settings = readSettings({});
  expect(COMPILING).toEqual(compileOptions(settings));
  const { bucketsMax: _own, logBytesMax: _ownToo, ...others } = DECIDING;
  expect(virtualSettings(settings)).toMatchObject(others);
});

/** Plays in the page, as modules of the page do, and explains the first call. */
function playIn(page: Page, texts: readonly (readonly [string, string])[]): Promise<PlayedAll[]> {
  const program = `import("./engine.js").then(({ play }) => ${JSON.stringify(texts)}.map(([rules, calls]) => {
    const played = play(rules, calls);
    return { ...played, explained: played.explain(0) };
  }))`;
  return page.evaluate(program) as Promise<PlayedAll[]>;
}

const time = (us: number | undefined) => (us === undefined || us > DURATION_US_MAX ? undefined : `${us}us`);

function entryOf(text: string) {
  const [key = "", value = ""] = text.split(/=(.*)/);
  return { key, value };
}

function expectationOf({ code, rule, remaining, waitUs, resetUs }: PlayedCall) {
  const told = { rule, remaining, wait: time(waitUs), reset: time(resetUs) };
  return { code, ...Object.fromEntries(Object.entries(told).filter(([, value]) => value !== undefined)) };
}

// Promise(simulations): The playground answers as `headgate test` and `headgate explain` do.
test("answers as `headgate test` and `headgate explain` do, call by call", async () => {
  const { seed = Math.floor(Math.random() * 2 ** 31) } = fc.readConfigureGlobal();
  const cases = generatedCases(seed);
  const played: PlayedAll[] = [];
  for (let at = 0; at < cases.length; at += CASES_PER_PAGE) {
    const { page, close } = await openPage(browser, url);
    played.push(...(await playIn(page, cases.slice(at, at + CASES_PER_PAGE).map(asTexts))));
    await close();
  }
  const errors = played.flatMap(({ problems }) => problems).filter((problem) => problem.includes(": error: "));
  expect({ seed, errors: [...new Set(errors)] }).toEqual({ seed, errors: [] });
  const dir = temporaryFolder("played");
  let calls = 0;
  for (const [i, { rules, steps }] of cases.entries()) {
    const answers = played[i] as PlayedAll;
    const expected = steps.map((step, at) => ({ ...step, expect: expectationOf(answers.calls[at] as PlayedCall) }));
    writeFileSync(join(dir, `${i}.yaml`), stringify({ rules, cases: [{ name: `seed ${seed}`, steps: expected }] }));
    calls += steps.length;
  }
  const terminal = new RecordedTerminal({ columns: 80 });
  await testFiles([dir], { format: "text" }, terminal);
  expect(terminal.outText.match(/FAILED[\s\S]*?\n {2}\w/)?.[0]).toBeUndefined();
  expect(terminal.outText).toContain(`${cases.length} of ${cases.length} cases passed, ${calls} calls`);
  const rulesFile = join(dir, "rules.yaml");
  for (const [i, { rules, steps }] of cases.entries()) {
    writeFileSync(rulesFile, stringify(rules));
    const asked = [steps[0]?.call ?? ""].flat().map((text) => text.split(",").map(entryOf));
    const explaining = new RecordedTerminal({ columns: 80 });
    await explainRules(asked, { domain: "edge", rules: rulesFile }, explaining);
    const text = explaining.outText.replaceAll(rulesFile, "rules").replace(UNMET_HINT, "");
    expect({ seed, i, text }).toEqual({ seed, i, text: played[i]?.explained });
  }
}, 600_000);

describe("the page", () => {
  test.each(EXAMPLES.map(({ name }, i) => [name, i] as const))(
    "plays the example %s without a problem",
    async (_, i) => {
      const { page, complaints, close } = await openPage(browser, url);
      await page.selectOption("#example", String(i));
      await expect.poll(() => page.textContent("#summary")).toMatch(/^\d+ of \d+ calls pass, [1-9]\d* don't\.$/);
      expect(await page.locator("#problems li").allTextContents()).toEqual([]);
      expect(complaints()).toEqual([]);
      await close();
    },
  );

  test("shows each call's answer, and why, as one types", async () => {
    const { page, complaints, close } = await openPage(browser, url);
    await page.fill("#rules", "domain: d\ndescriptors: [{ key: k, rate_limit: { tokens_per_second: 1, burst: 2 } }]");
    await page.fill("#calls", "- { call: k=v, times: 3 }\n- { after: 500ms, call: k=v, expect: OVER_LIMIT }");
    const rows = page.locator("#answers tr");
    const cells = async () => Promise.all((await rows.all()).map((row) => row.locator("td").allTextContents()));
    await expect.poll(cells).toEqual([
      ["+0s", "2", "k=v", "passes", "d/k", "1 to 0", "", "2s"],
      ["+0s", "1", "k=v", "refused", "d/k", "0", "1s", "2s"],
      ["+500ms", "1", "k=v", "refused", "d/k", "0", "500ms", "1.5s"],
    ]);
    await rows.nth(1).getByRole("button").click();
    expect(await page.textContent("#why")).toContain("domain d");
    expect(complaints()).toEqual([]);
    await close();
  });

  test("says what is wrong, and where, in the words of the commands", async () => {
    const { page, close } = await openPage(browser, url);
    await page.fill(
      "#rules",
      "domain: d\ndescriptors:\n  - key: k\n    rate_limit: { tokens_per_second: 1, brust: 2 }",
    );
    await page.fill("#calls", "- { call: k=v, tiems: 3 }\n- { call: k=v, expect: OVER_LIMIT }");
    const problems = () => page.locator("#problems li").allTextContents();
    await expect.poll(async () => (await problems()).join("\n")).toMatch(/rules:4:\d+.*brust[\s\S]*calls:1:\d+.*tiems/);
    expect(await page.textContent("#summary")).toBe("No calls.");
    await page.fill("#rules", "domain: d\ndescriptors: [{ key: k, rate_limit: { tokens_per_second: 1, burst: 2 } }]");
    await page.fill("#calls", "- { call: k=v, expect: OVER_LIMIT }");
    await expect
      .poll(async () => (await problems()).join("\n"))
      .toMatch(/calls:1:\d+: expected the code OVER_LIMIT, got OK/);
    await page.fill("#calls", "- { call: k=v, times: 1000000 }");
    await expect.poll(async () => (await problems()).join("\n")).toContain("at most 100000 calls");
    await close();
  });

  test("is all in its link, which nobody is asked about", async () => {
    const first = await openPage(browser, url);
    const asked: string[] = [];
    const rules = "domain: d\ndescriptors: [{ key: Größe, rate_limit: { tokens_per_second: 1, burst: 2 } }]";
    await first.page.fill("#rules", rules);
    await first.page.fill("#calls", "- { call: Größe=ω, times: 7 }");
    await expect.poll(() => first.page.textContent("#summary")).toBe("2 of 7 calls pass, 5 don't.");
    await expect.poll(() => first.page.url()).toMatch(/#[\w-]{40,}$/);
    await expect.poll(async () => (await first.page.reload()) && first.page.inputValue("#rules")).toBe(rules);
    const second = await openPage(browser, "about:blank");
    second.page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    await second.page.goto(first.page.url());
    await expect.poll(() => second.page.textContent("#summary")).toBe("2 of 7 calls pass, 5 don't.");
    expect(await second.page.inputValue("#rules")).toBe(rules);
    expect(asked.every((path) => /^\/(?:[\w.]+)?$/.test(path))).toBe(true);
    for (const { close } of [first, second]) await close();
  });

  test("begins with an example where a link was cut, and says so", async () => {
    const { page, complaints, close } = await openPage(browser, `${url}#q1YqSy0qzszPU7JSAgA`);
    await expect.poll(() => page.textContent("#problems")).toContain("link is damaged");
    expect(await page.inputValue("#rules")).toBe(EXAMPLES[0].rules);
    expect(complaints()).toEqual([]);
    await close();
  });

  test("adds calls at a rate as a step, and copies all as a file for `headgate test`", async () => {
    const { page, close } = await openPage(browser, url, { permissions: ["clipboard-read", "clipboard-write"] });
    await page.fill("#rules", "domain: d\ndescriptors: [{ key: k, rate_limit: { tokens_per_second: 10, burst: 10 } }]");
    await page.fill("#calls", "# none yet");
    for (const [id, value] of [
      ["times", "20"],
      ["descriptor", "k=v"],
      ["rate", "40"],
      ["after", "2s"],
    ] as const)
      await page.fill(`#${id}`, value);
    await page.click("#add button");
    await expect
      .poll(() => page.inputValue("#calls"))
      .toBe('# none yet\n- { after: 2s, call: "k=v", times: 20, every: 25ms }\n');
    await expect.poll(() => page.textContent("#summary")).toBe("14 of 20 calls pass, 6 don't.");
    await page.click("#test");
    await expect.poll(() => page.textContent("#copied")).toContain("headgate test");
    const file = join(temporaryFolder("copied"), "copied.yaml");
    writeFileSync(file, (await page.evaluate("navigator.clipboard.readText()")) as string);
    const terminal = new RecordedTerminal();
    await testFiles([file], { format: "text" }, terminal);
    expect(terminal.outText).toContain("1 of 1 case passed, 20 calls");
    await close();
  });

  test.each(["light", "dark"] as const)("has no barrier in %s, and fits a telephone", async (scheme) => {
    const { page, barriers, close } = await openPage(browser, url, { scheme, viewport: { width: 360, height: 740 } });
    await page.locator("#answers button").first().click();
    expect(await barriers()).toEqual([]);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(360);
    await close();
  });
});
