// The docs as a site. Pages stay where they are, in docs/; `node site/build.mjs` builds it.

import { existsSync, readFileSync } from "node:fs";
import { posix, resolve } from "node:path";
import { defineConfig } from "vitepress";

const ROOT = resolve(import.meta.dirname, "../..");
const { repository } = JSON.parse(readFileSync(resolve(ROOT, "deploy/names.json"), "utf8"));
/** The way in, by role: headings and links of docs/README.md are the side bar. */
const WAY_IN = readFileSync(resolve(ROOT, "docs/README.md"), "utf8");

const sidebar = WAY_IN.split(/^## /m)
  .slice(1)
  .map((section) => {
    const links = [...section.matchAll(/\[([^\]]+)\]\(([\w-]+)\.md\)/g)];
    return {
      text: section.split("\n")[0],
      collapsed: true,
      items: links.map(([, text, page]) => ({ text, link: `/${page}` })),
    };
  });

/** Links that leave docs/ lead to the repository. Without an address of it they are plain text. @param {any} md */
function leadOut(md) {
  md.core.ruler.push("lead-out", (/** @type {any} */ { tokens, env }) => {
    for (const { children } of tokens) {
      let isText = false;
      for (const token of children ?? []) {
        if (token.type === "link_open") isText = leadOne(token, env.relativePath);
        else if (token.type === "link_close" && isText) token.hidden = token.type = "text";
      }
    }
  });
}

/** Makes the link lead out if it leaves docs/. Returns whether it is only text now. @param {any} token @param {string} page */
function leadOne(token, page) {
  const [path, anchor] = token.attrGet("href").split("#");
  if (path === "" || /^[a-z]+:/.test(path)) return false;
  const target = posix.join("docs", posix.dirname(page), path);
  if (target.startsWith("docs/") && /\.(?:md|svg|png)$/.test(target)) return false;
  if (!existsSync(resolve(ROOT, target))) throw new Error(`${page} links to ${path}, which is not there`);
  if (repository === "") {
    token.type = "text";
    return true;
  }
  token.attrSet("href", `${repository}/blob/main/${target}${anchor === undefined ? "" : `#${anchor}`}`);
  return false;
}

export default defineConfig({
  title: "Headgate",
  description: "Rate limit service for Envoy, Istio and your own services",
  srcDir: "../docs",
  outDir: "./dist",
  cacheDir: "./.vitepress/cache",
  rewrites: { "README.md": "index.md" },
  cleanUrls: false,
  lastUpdated: false,
  markdown: { config: leadOut },
  // Pages of its own that VitePress does not make.
  ignoreDeadLinks: [/\/playground\//],
  themeConfig: {
    outline: "deep",
    sidebar,
    nav: [{ text: "Playground", link: "/playground/index.html", target: "_self" }],
    search: {
      provider: "local",
      // Decisions tell why, and would stand before what to do.
      options: {
        _render: (source, env, md) => (env.relativePath.startsWith("decisions/") ? "" : md.render(source, env)),
      },
    },
  },
});
