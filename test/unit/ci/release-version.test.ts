// The release script's version: in every file that names it, and as a section of the changelog.

import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { PACKAGES } from "../../support/own-packages.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const SCRIPT = join(ROOT, ".ci/release/version.mjs");
const MANIFESTS = ["package.json", ...PACKAGES.map((folder) => `${folder}/package.json`)];
const FILES = [...MANIFESTS, "package-lock.json", "README.md", "docs", "deploy"];
const LINE = "- Something that operators notice.";

const { checkNext, checkSet, setVersion, versionOf } = (await import(SCRIPT)) as {
  checkNext(root: string, version: string): void;
  checkSet(root: string, version: string): void;
  setVersion(root: string, version: string, date: string): void;
  versionOf(root: string): string;
};
const current = versionOf(ROOT);

/** The files that name the version, and a changelog with one line that is unreleased. */
function checkout(files: readonly string[] = FILES): string {
  const folder = temporaryFolder("headgate-version");
  for (const path of PACKAGES) mkdirSync(join(folder, path), { recursive: true });
  for (const file of files) cpSync(join(ROOT, file), join(folder, file), { recursive: true });
  const changelog = `# Changelog\n\n## Unreleased\n\n${LINE}\n\n## 0.0.1 - 2026-01-01\n\n- First.\n`;
  writeFileSync(join(folder, "CHANGELOG.md"), changelog);
  return folder;
}

/** The files that hold a version, but for the changelog and the lock file, which names many. */
function filesNaming(folder: string, version: string): string[] {
  const word = new RegExp(`(?<![\\w.])${version.replaceAll(".", "\\.")}(?![\\w.-])`);
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => !/package-lock|CHANGELOG/.test(file) && statSync(join(folder, file)).isFile())
    .filter((file) => word.test(readFileSync(join(folder, file), "utf8")))
    .toSorted();
}

describe("a version that is set", () => {
  test.each(["98.7.6", "98.7.6-rc.1"])("%s stands wherever the old one stood", (version) => {
    const folder = checkout();
    const named = filesNaming(folder, current);
    setVersion(folder, version, "2026-02-03");
    expect(filesNaming(folder, current)).toEqual([]);
    expect(filesNaming(folder, version)).toEqual(named);
    const sure = [...MANIFESTS, "README.md", "deploy/helm/headgate/Chart.yaml"];
    expect(named).toEqual(expect.arrayContaining(sure));
    const lock = JSON.parse(readFileSync(join(folder, "package-lock.json"), "utf8"));
    const locked = [lock, ...["", ...PACKAGES].map((path) => lock.packages[path])];
    expect(locked.filter((manifest) => manifest.version !== version)).toEqual([]);
  });

  test("takes what is unreleased as its section, and leaves Unreleased empty", () => {
    const folder = checkout();
    setVersion(folder, "98.7.6", "2026-02-03");
    expect(readFileSync(join(folder, "CHANGELOG.md"), "utf8")).toBe(
      `# Changelog\n\n## Unreleased\n\n## 98.7.6 - 2026-02-03\n\n${LINE}\n\n## 0.0.1 - 2026-01-01\n\n- First.\n`,
    );
    expect(() => checkSet(folder, "98.7.6")).not.toThrow();
    expect(() => checkNext(folder, "98.7.6")).toThrow("CHANGELOG.md has a section for 98.7.6 already");
    expect(() => checkNext(folder, "98.7.7")).toThrow("CHANGELOG.md has nothing under Unreleased");
  });
});

describe("a version is refused that", () => {
  const folder = checkout(["package.json"]);

  test.each([
    { what: "is none", version: "9.8", says: "expected a version such as 1.2.3" },
    { what: "is a path", version: "../..", says: "expected a version such as 1.2.3" },
    { what: "is an option", version: "--tag", says: "expected a version such as 1.2.3" },
    { what: "is lower", version: "0.0.2", says: `expected a version from ${current} on, got 0.0.2` },
    { what: "comes before this one", version: `${current}-rc.1`, says: `expected a version from ${current} on` },
  ])("$what", ({ version, says }) => {
    expect(() => checkNext(folder, version)).toThrow(says);
  });

  test("is to be published and was not set", () => {
    expect(() => checkSet(folder, "98.7.6")).toThrow(`expected the version 98.7.6 in package.json, found ${current}`);
    expect(() => checkSet(folder, current)).toThrow(`CHANGELOG.md has no section for ${current}`);
  });
});
