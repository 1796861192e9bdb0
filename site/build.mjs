// Builds the site into site/dist, a folder that any file server can serve: the docs, the playground, llms.txt and llms-full.txt.
//
//   npm ci --prefix site && node site/build.mjs

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { build } from "vitepress";
import { buildPlayground } from "../playground/build.mjs";

const HERE = import.meta.dirname;
const DOCS = resolve(HERE, "../docs");
const OUT = resolve(HERE, "dist");

await build(HERE);
await buildPlayground(resolve(OUT, "playground"));

const pages = readdirSync(DOCS)
  .filter((name) => name.endsWith(".md") && name !== "README.md")
  .map((name) => ({ name, text: readFileSync(resolve(DOCS, name), "utf8") }));
const about = "> Rate limit service for Envoy, Istio and your own services, over Envoy's rate limit protocol (RLS v3).";
const list = pages.map(({ name, text }) => `- [${titleOf(text)}](${name.replace(/md$/, "html")}): ${leadOf(text)}`);
writeFileSync(resolve(OUT, "llms.txt"), `# Headgate\n\n${about}\n\n## Docs\n\n${list.join("\n")}\n`);
const whole = [readFileSync(resolve(HERE, "../README.md"), "utf8"), ...pages.map(({ text }) => text)];
writeFileSync(resolve(OUT, "llms-full.txt"), whole.join("\n\n"));

/** @param {string} text */
function titleOf(text) {
  return text.match(/^# (.*)/)?.[1] ?? "";
}

/** The first sentence below the title. @param {string} text */
function leadOf(text) {
  const [paragraph = ""] = text.split("\n\n").slice(1);
  return paragraph.replaceAll("\n", " ").split(/(?<=[.:]) /)[0] ?? "";
}
