// The docs as a site, built from a clean checkout, and found in its search as an operator would type.

import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const SITE = join(ROOT, "site");
const DIST = join(SITE, "dist");
const BUILD_MS = 600_000;
const HITS = 3;

interface Hit {
  /** The page and its heading, such as `/inspect.html#who-is-limited-now`. */
  readonly id: string;
}
interface Index {
  search(query: string): readonly Hit[];
}
/** What VitePress's search box asks with. */
const SEARCH = {
  fields: ["title", "titles", "text"],
  storeFields: ["title", "titles"],
  searchOptions: { fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 } },
};

let index: Index;

beforeAll(async () => {
  if (!existsSync(join(SITE, "node_modules"))) {
    execFileSync("npm", ["ci", "--no-audit", "--no-fund", "--workspaces=false"], { cwd: SITE, stdio: "pipe" });
  }
  execFileSync("node", [join(SITE, "build.mjs")], { cwd: ROOT, stdio: "pipe" });
  const chunks = join(DIST, "assets/chunks");
  const name = readdirSync(chunks).find((one) => one.startsWith("@localSearchIndex")) ?? "";
  const { default: json } = (await import(join(chunks, name))) as { readonly default: string };
  const MiniSearch = createRequire(join(SITE, "package.json"))("minisearch") as {
    loadJSON(json: string, options: object): Index;
  };
  index = MiniSearch.loadJSON(json, SEARCH);
}, BUILD_MS);

// What operators ask -> the page that says it.
test.each([
  ["who is limited now", "inspect"],
  ["redis is down", "operations|reliability|redis"],
  ["block a caller", "runtime-limits"],
  ["envoy timeout failure_mode_deny", "envoy|operations"],
  ["limit by tenant", "envoy|rules-file|layers"],
  ["sliding window or token bucket", "algorithms"],
  ["admin token", "kubernetes|inspect|operations|settings|runtime-limits"],
  ["how much memory", "cores|operations|settings"],
  ["llm tokens per minute", "llm"],
  ["which rule refused", "envoy|inspect"],
  ["migrate from limitador", "from-limitador"],
  ["prometheus alerts", "operations|kubernetes"],
])("'%s' leads to the right page in the first three hits", (query, pages) => {
  const hits = index
    .search(query)
    .slice(0, HITS)
    .map(({ id }) => id);
  expect(
    hits.some((id) => new RegExp(`^/(?:${pages})(?:\\.html)?(?:#|$)`).test(id)),
    hits.join("\n"),
  ).toBe(true);
});

test("decisions are pages, but no hits", () => {
  expect(existsSync(join(DIST, "decisions/0019-holds.html"))).toBe(true);
  const hits = ["decision", "holds", "snapshot format", "tried and did not pay"].flatMap((query) =>
    index.search(query),
  );
  expect(hits.filter(({ id }) => id.startsWith("/decisions/"))).toEqual([]);
  expect(hits.length).toBeGreaterThan(10);
});

test("every page of docs is there, in llms.txt with its title, and in llms-full.txt whole", () => {
  const pages = readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md") && name !== "README.md");
  const list = readFileSync(join(DIST, "llms.txt"), "utf8");
  const whole = readFileSync(join(DIST, "llms-full.txt"), "utf8");
  for (const page of pages) {
    const text = readFileSync(join(ROOT, "docs", page), "utf8");
    expect(existsSync(join(DIST, page.replace(/md$/, "html"))), page).toBe(true);
    expect(list).toMatch(
      new RegExp(`^- \\[${/^# (.*)/.exec(text)?.[1]}\\]\\(${page.replace(/md$/, "html")}\\): .+`, "m"),
    );
    expect(whole).toContain(text.trim());
  }
});

test("no link of a page leads to a file that the site has not", () => {
  const pages = readdirSync(DIST, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".html"));
  const dead = pages.flatMap((page) => {
    const links = [...readFileSync(join(DIST, page), "utf8").matchAll(/<a [^>]*href="([^"#?]+)[^"]*"/g)];
    const paths = links.map(([, href = ""]) => href).filter((href) => !/^[a-z]+:/.test(href));
    const fileOf = (href: string) => (href.startsWith("/") ? join(DIST, href) : resolve(join(DIST, page), "..", href));
    return paths.filter((href) => !existsSync(fileOf(href))).map((href) => `${page}: ${href}`);
  });
  expect([...new Set(dead)]).toEqual([]);
  expect(pages.length).toBeGreaterThan(60);
});

test("the playground is in it", () => {
  for (const file of ["index.html", "playground.js", "engine.js"])
    expect(existsSync(join(DIST, "playground", file)), file).toBe(true);
});
