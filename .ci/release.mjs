// Makes a release, or tries one; RELEASING.md tells the steps. Works on a copy of what is committed.
//   npm run release -- 0.2.0              tries it: makes all files in .cache/release/0.2.0 and changes nothing else. On the commit of
//                                         that version it makes the files again, as they were published
//   npm run release -- 0.2.0 --write      sets version and changelog in this checkout, for review
//   npm run release -- 0.2.0 --publish    on the commit with the tag v0.2.0: makes the files, signs and publishes them
// --out FOLDER says where the files go: a folder that is new or empty.

import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { makeArtifacts } from "./release/artifacts.mjs";
import { tryPackages } from "./release/installed.mjs";
import { run, say, withFolder } from "./release/run.mjs";
import { checkNext, checkSet, isSet, packagesOf, setVersion } from "./release/version.mjs";

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const ARCHIVE_BYTES_MAX = 268_435_456;
const USAGE = "usage: npm run release -- VERSION [--write | --publish] [--out FOLDER]";
const DAY_CHARS = "YYYY-MM-DD".length;

try {
  release(readArguments());
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}

function release({ version, write, publish, out }) {
  if (write) {
    checkNext(ROOT, version);
    setVersion(ROOT, version, today());
    say(
      `version and changelog say ${version}; review the change, commit it as "Release ${version}", and tag v${version}`,
    );
    return;
  }
  if (publish) checkTagged(version);
  if (git("status", "--porcelain") !== "") say("what is not committed is left out");
  const commands = publishCommands(version, out);
  withFolder("headgate-release", (copy) => {
    copyTo(copy);
    if (publish || isSet(copy, version)) checkSet(copy, version);
    else {
      checkNext(copy, version);
      setVersion(copy, version, today());
    }
    emptyFolder(out, version);
    say(`files of ${version} in ${out}:`);
    makeArtifacts({ root: copy, out, version, seconds: Number(git("log", "-1", "--format=%ct")) });
  });
  tryPackages(out, version);
  if (!publish) say("tried, not published; --publish would run:");
  for (const command of commands) {
    say(`  ${command.join(" ")}`);
    if (publish) run(command[0], command.slice(1), { stdio: ["ignore", "inherit", "inherit"] });
  }
}

function readArguments() {
  const options = { write: { type: "boolean" }, publish: { type: "boolean" }, out: { type: "string" } };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const [version] = positionals;
  if (positionals.length !== 1 || (values.write && values.publish)) throw new Error(USAGE);
  return { ...values, version, out: resolve(values.out ?? ownFolder(version)) };
}

function ownFolder(version) {
  return join(ROOT, ".cache/release", version);
}

/** Removes the files of an earlier run only where nobody else puts any. */
function emptyFolder(folder, version) {
  if (folder === ownFolder(version)) rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  if (readdirSync(folder).length > 0) throw new Error(`${folder} is not empty; name a folder that is new or empty`);
}

/** In their order. Whoever has to go on by hand after one failed runs the rest. IMAGE names the image; without it none is published. */
function publishCommands(version, out) {
  const isEarly = version.includes("-");
  const tag = isEarly ? ["--tag", "next"] : [];
  const file = (name) => join(out, name);
  const packages = packagesOf(ROOT).map((path) => path.replace("packages/", "headgate-"));
  const bills = ["headgate", ...packages].map((name) => file(`${name}-${version}.sbom.cdx.json`));
  const packed = packages.map((name) => file(`${name}-${version}.tgz`));
  const billed = [file(`headgate-image-${version}.tar.gz`), ...packed];
  const assets = [
    ...billed,
    ...bills,
    ...[`headgate-${version}.tgz`, `headgate-chart-${version}.tgz`, "SHA256SUMS"].map(file),
  ];
  // Signatures are by the identity of the workflow that runs this, with no key to keep.
  const attest = billed.map((name, i) => {
    const predicate = ["--type", "cyclonedx", "--predicate", bills[i]];
    return ["cosign", "attest-blob", "--yes", ...predicate, "--bundle", `${name}.sigstore.json`, name];
  });
  const bundles = [...billed, file("SHA256SUMS")].map((name) => `${name}.sigstore.json`);
  return [
    ["cosign", "sign-blob", "--yes", "--bundle", file("SHA256SUMS.sigstore.json"), file("SHA256SUMS")],
    ...attest,
    ...[...packed, file(`headgate-${version}.tgz`)].map((name) => ["npm", "publish", "--provenance", ...tag, name]),
    ...imageCommands(process.env.IMAGE, version, bills[0]),
    [
      ...["gh", "release", "create", `v${version}`, "--verify-tag", ...(isEarly ? ["--prerelease"] : [])],
      ...["--notes-file", file("NOTES.md"), ...assets, ...bundles],
    ],
  ];
}

function imageCommands(image, version, bill) {
  if (!image) return [];
  const name = `${image}:${version}`;
  return [
    ["docker", "build", "--file", join(ROOT, "deploy/Dockerfile"), "--tag", name, ROOT],
    ["docker", "push", name],
    [join(ROOT, ".ci/release/sign-image"), name, bill],
  ];
}

function checkTagged(version) {
  if (git("status", "--porcelain") !== "") throw new Error("expected a checkout without changes");
  const tags = git("tag", "--points-at", "HEAD").split("\n");
  if (!tags.includes(`v${version}`)) throw new Error(`expected the tag v${version} on the commit that is checked out`);
}

/** What is committed, with the packages that are installed here. */
function copyTo(folder) {
  if (!existsSync(join(ROOT, "node_modules/.bin/tsc"))) throw new Error("the compiler is missing: run `npm ci` first");
  const archive = run("git", ["archive", "HEAD"], { cwd: ROOT, encoding: "buffer", maxBuffer: ARCHIVE_BYTES_MAX });
  run("tar", ["x", "-C", folder], { input: archive, stdio: ["pipe", "pipe", "inherit"] });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
}

function git(...args) {
  return run("git", args, { cwd: ROOT }).trim();
}

function today() {
  return new Date().toISOString().slice(0, DAY_CHARS);
}
