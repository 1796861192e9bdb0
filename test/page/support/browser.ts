// A real Chromium, and pages in it whose every complaint is kept: errors in the console, faults of scripts, what the policy forbids.

import axe from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { chromiumProgram } from "./require-chromium.ts";

/** Only for what never comes: a busy machine may take long. */
const WAIT_MS = 60_000;

const OPTIONS = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
} as const;

export interface SeenPage {
  readonly page: Page;
  /** What the browser has complained of, but for what `expected` matches: the browser itself notes each answer that is an error. */
  complaints(expected?: RegExp): readonly string[];
  /** What axe finds, as `rule: element`. */
  barriers(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** Starts the browser. Its profile is a temporary folder, which goes with it. */
export function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: chromiumProgram(),
    // Tests may run as root, and loopback is all that they reach.
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run"],
    chromiumSandbox: false,
  });
}

/** Opens an address in a page of its own, which shares nothing with others. */
export async function openPage(
  browser: Browser,
  url: string,
  { scheme = "light", ...options }: BrowserContextOptions & { readonly scheme?: keyof typeof OPTIONS } = {},
): Promise<SeenPage> {
  const context = await browser.newContext({
    ...OPTIONS[scheme],
    viewport: { width: 1_100, height: 900 },
    locale: "en",
    timezoneId: "UTC",
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  const said: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) said.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => said.push(`fault: ${error.message}`));
  await page.addInitScript(
    'document.addEventListener("securitypolicyviolation", (event) => console.error("forbidden", event.violatedDirective, event.blockedURI))',
  );
  await page.goto(url);
  return {
    page,
    complaints: (expected) => said.filter((line) => expected?.test(line) !== true),
    async barriers() {
      await page.evaluate(axe.source);
      const found = (await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")) as axe.AxeResults;
      return found.violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
    },
    close: () => context.close(),
  };
}
