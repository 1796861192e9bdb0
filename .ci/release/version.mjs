// A version in all files that name it, and its section in the changelog.

import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const VERSION = /^(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$/;
const UNRELEASED = "## Unreleased\n";
/** Pages and manifests that name the image, or label objects with the version. */
const NAMING = ["README.md", "docs", "deploy"];

/** The version that a checkout has. */
export function versionOf(root) {
  return JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version;
}

/** Throws with a sentence unless the checkout can become this version. */
export function checkNext(root, version) {
  const current = versionOf(root);
  if (!VERSION.test(version)) throw new Error(`expected a version such as 1.2.3 or 1.2.3-rc.1, got ${version}`);
  if (isLower(version, current)) throw new Error(`expected a version from ${current} on, got ${version}`);
  const changelog = readFileSync(join(root, "CHANGELOG.md"), "utf8");
  if (sectionOf(changelog, version) !== undefined) throw new Error(`CHANGELOG.md has a section for ${version} already`);
  if (!changelog.includes(UNRELEASED)) throw new Error(`CHANGELOG.md has no section ${UNRELEASED.trim()}`);
  if (sectionOf(changelog, "Unreleased") === "") throw new Error("CHANGELOG.md has nothing under Unreleased");
}

/** True if the checkout has this version, with its section in the changelog. */
export function isSet(root, version) {
  const changelog = readFileSync(join(root, "CHANGELOG.md"), "utf8");
  return versionOf(root) === version && sectionOf(changelog, version) !== undefined;
}

/** Throws with a sentence unless the checkout has this version, as `setVersion` leaves it. */
export function checkSet(root, version) {
  const current = versionOf(root);
  if (current !== version) throw new Error(`expected the version ${version} in package.json, found ${current}`);
  const changelog = readFileSync(join(root, "CHANGELOG.md"), "utf8");
  if (sectionOf(changelog, version) === undefined) throw new Error(`CHANGELOG.md has no section for ${version}`);
}

/** Writes the version into all files that name it, and moves what is unreleased into its section. `date` is YYYY-MM-DD. */
export function setVersion(root, version, date) {
  const old = versionOf(root);
  const edit = (file, change) => {
    const before = readFileSync(join(root, file), "utf8");
    const after = change(before);
    if (after !== before) writeFileSync(join(root, file), after);
  };
  for (const file of ["package.json", ...packagesOf(root).map((path) => `${path}/package.json`)]) {
    edit(file, (text) => text.replace(`"version": "${old}"`, `"version": "${version}"`));
  }
  edit("package-lock.json", (text) => lockWith(text, version, packagesOf(root)));
  edit("deploy/helm/headgate/Chart.yaml", (text) => text.replace(/^(version|appVersion): .*$/gm, `$1: ${version}`));
  const named = new RegExp(`(headgate:|app\\.kubernetes\\.io/version: )${old.replaceAll(".", "\\.")}(?![\\w.-])`, "g");
  for (const file of NAMING.flatMap((path) => filesIn(root, path))) {
    edit(file, (text) => text.replace(named, `$1${version}`));
  }
  edit("CHANGELOG.md", (text) => text.replace(UNRELEASED, `${UNRELEASED}\n## ${version} - ${date}\n`));
}

/** The text of a section of the changelog, without its heading; undefined if there is none. */
export function sectionOf(changelog, name) {
  const sections = changelog.split(/^## /m).slice(1);
  const found = sections.find((section) => section.split(/\s/, 1)[0] === name);
  return found?.slice(found.indexOf("\n") + 1).trim();
}

/** The folders of the packages next to the service's own: "packages/client". */
export function packagesOf(root) {
  return readdirSync(join(root, "packages"))
    .toSorted()
    .map((name) => `packages/${name}`);
}

function lockWith(text, version, packages) {
  const lock = JSON.parse(text);
  lock.version = version;
  for (const path of ["", ...packages]) lock.packages[path].version = version;
  return `${JSON.stringify(lock, null, 2)}\n`;
}

function filesIn(root, path) {
  if (!statSync(join(root, path)).isDirectory()) return [path];
  return readdirSync(join(root, path), { recursive: true, encoding: "utf8" })
    .map((file) => join(path, file))
    .filter((file) => /\.(md|ya?ml|tpl|txt)$|Dockerfile$/.test(file) && statSync(join(root, file)).isFile());
}

// A version with a word behind its numbers comes before the one without.
function isLower(version, than) {
  const [left, right] = [VERSION.exec(version), VERSION.exec(than)];
  for (const at of [1, 2, 3]) {
    const difference = Number(left[at]) - Number(right[at]);
    if (difference !== 0) return difference < 0;
  }
  return left[4] !== undefined && right[4] === undefined;
}
