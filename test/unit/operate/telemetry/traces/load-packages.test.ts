// What people are told to install is what Headgate says it works with, and what the tests run with.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { VERSIONS } from "../../../../../src/operate/telemetry/traces/load-packages.ts";

const ROOT = resolve(import.meta.dirname, "../../../../..");
const manifest = JSON.parse(readFileSync(resolve(ROOT, "package.json"), "utf8")) as Record<
  "peerDependencies" | "peerDependenciesMeta" | "devDependencies",
  Readonly<Record<string, unknown>>
>;

test("the versions that are named are those of the optional peers, and installed here", () => {
  const peers = Object.entries(VERSIONS).map(([name, version]) => [name, `~${version}.0`]);
  expect(manifest.peerDependencies).toEqual(Object.fromEntries(peers));
  expect(Object.keys(manifest.peerDependenciesMeta)).toEqual(Object.keys(manifest.peerDependencies));
  for (const [name, version] of Object.entries(VERSIONS)) {
    expect(manifest.peerDependenciesMeta[name]).toEqual({ optional: true });
    expect(manifest.devDependencies[name], name).toMatch(new RegExp(`^${version.replace(".", "\\.")}\\.\\d+$`));
  }
});

test("docs/inspect.md has the command with these versions", () => {
  const page = readFileSync(resolve(ROOT, "docs/inspect.md"), "utf8");
  const named = [...page.matchAll(/(@opentelemetry\/[a-z-]+)@([\d.]+)/g)];
  expect(named.length).toBeGreaterThan(3);
  for (const [, name = "", version] of named) expect(version, name).toBe(VERSIONS[name]);
});
