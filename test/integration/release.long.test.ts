// A release of what is committed, from trying to publishing, in a copy of the repository. npm, gh, docker and cosign are stand-ins where they
// would publish: they write down what they were asked for. That of cosign signs with a local key in place of an identity.

import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, delimiter, join, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { PACKAGES } from "../support/own-packages.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const VERSION = "98.7.6";
const RELEASE_MS = 300_000;
/** The packages next to the service's own, as their files are named. */
const PACKED = PACKAGES.map((folder) => folder.replace("packages/", "headgate-"));
const FILES = [
  "NOTES.md",
  "SHA256SUMS",
  `headgate-${VERSION}.sbom.cdx.json`,
  `headgate-${VERSION}.tgz`,
  `headgate-chart-${VERSION}.tgz`,
  `headgate-image-${VERSION}.tar.gz`,
  ...PACKED.flatMap((name) => [`${name}-${VERSION}.sbom.cdx.json`, `${name}-${VERSION}.tgz`]),
].toSorted();

/** Who commits, and when: archives carry the time of the commit. */
const IDENTITY = {
  ...Object.fromEntries(
    ["AUTHOR", "COMMITTER"].flatMap((role) => [
      [`GIT_${role}_NAME`, "somebody"],
      [`GIT_${role}_EMAIL`, "somebody@example.test"],
      [`GIT_${role}_DATE`, "2026-01-02T03:04:05Z"],
    ]),
  ),
  GIT_CONFIG_GLOBAL: "/dev/null",
};

let repository: string;
let out: string;
let asked: string;
let env: NodeJS.ProcessEnv;
const keys = temporaryFolder("headgate-release-keys");
const IMAGE = "images.example/headgate";

/** Signs the file, and with attest-blob the bill before it, into the bundle: both commands name these last. */
const COSIGN = `
case $1 in
sign-blob) cat "$5" | openssl dgst -sha256 -sign "${keys}/key" -out "$4" ;;
attest-blob) cat "$6" "$9" | openssl dgst -sha256 -sign "${keys}/key" -out "$8" ;;
esac`;

/** Whether a bundle of that stand-in is of these files. */
function isSigned(bundle: string, ...files: readonly string[]): boolean {
  const input = Buffer.concat(files.map((file) => readFileSync(file)));
  const args = ["dgst", "-sha256", "-verify", join(keys, "public"), "-signature", bundle];
  return spawnSync("openssl", args, { input }).status === 0;
}

beforeAll(() => {
  repository = temporaryFolder("headgate-release-of");
  out = temporaryFolder("headgate-release-files");
  asked = join(temporaryFolder("headgate-release-asked"), "commands");
  const archive = execFileSync("git", ["archive", "HEAD"], { cwd: ROOT, maxBuffer: 2 ** 28 });
  execFileSync("tar", ["x", "-C", repository], { input: archive });
  symlinkSync(join(ROOT, "node_modules"), join(repository, "node_modules"));
  const changelog = readFileSync(join(repository, "CHANGELOG.md"), "utf8");
  const line = "## Unreleased\n\n- Something that operators notice.\n";
  writeFileSync(join(repository, "CHANGELOG.md"), changelog.replace("## Unreleased\n", line));
  // The folder of packages is a link here, which .gitignore's `node_modules/` does not mean.
  writeFileSync(join(repository, ".gitignore"), "node_modules\ndist/\n.cache/\n");
  const programs = temporaryFolder("headgate-release-programs");
  const npm = execFileSync("which", ["npm"], { encoding: "utf8" }).trim();
  const standIn = `#!/bin/sh\necho "$(basename "$0") $*" >> "${asked}"\n`;
  execFileSync("sh", ["-c", "openssl genrsa -out key && openssl rsa -in key -pubout -out public"], {
    cwd: keys,
    stdio: "ignore",
  });
  const digest = `[ "$1" != inspect ] || exec echo ${IMAGE}@sha256:abc\n`;
  const others = { gh: standIn, docker: standIn.replace("\n", `\n${digest}`), cosign: standIn + COSIGN };
  for (const [name, text] of Object.entries(others)) writeFileSync(join(programs, name), text, { mode: 0o755 });
  writeFileSync(join(programs, "npm"), `#!/bin/sh\n[ "$1" = publish ] || exec "${npm}" "$@"\n${standIn}`, {
    mode: 0o755,
  });
  env = { ...process.env, ...IDENTITY, IMAGE, PATH: `${programs}${delimiter}${process.env.PATH}` };
  git("init", "--quiet");
  commit("Begin");
});

function git(...args: readonly string[]): string {
  return execFileSync("git", args, { cwd: repository, encoding: "utf8", env });
}

function commit(subject: string): void {
  git("add", "--all");
  git("commit", "--quiet", "--message", subject);
}

function release(...args: readonly string[]): { readonly status: number | null; readonly said: string } {
  const script = join(repository, ".ci/release.mjs");
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], { encoding: "utf8", env });
  return { status, said: stdout + stderr };
}

const published = () => (existsSync(asked) ? readFileSync(asked, "utf8").trim().split("\n") : []);
const sums = (folder: string) => readFileSync(join(folder, "SHA256SUMS"), "utf8");

test(
  "that is tried makes every file with its checksum, publishes nothing, and leaves the checkout as it was",
  () => {
    const { status, said } = release(VERSION, "--out", join(out, "tried"));
    expect(status, said).toBe(0);
    expect(said).toContain(
      "all packages install elsewhere and load, the client by import and require, and the command runs",
    );
    expect(readdirSync(join(out, "tried")).toSorted()).toEqual(FILES);
    const hashed = FILES.filter((name) => name !== "SHA256SUMS").map((name) => {
      const hash = createHash("sha256")
        .update(readFileSync(join(out, "tried", name)))
        .digest("hex");
      return `${hash}  ${name}\n`;
    });
    expect(sums(join(out, "tried"))).toBe(hashed.join(""));
    expect(published()).toEqual([]);
    expect(git("status", "--porcelain")).toBe("");
  },
  RELEASE_MS,
);

test("has the version in each of its files", () => {
  const read = (archive: string, file: string) =>
    execFileSync("tar", ["xzfO", join(out, "tried", archive), file], { encoding: "utf8" });
  for (const [archive, file] of [
    [`headgate-${VERSION}.tgz`, "package/package.json"],
    ...PACKED.map((name) => [`${name}-${VERSION}.tgz`, "package/package.json"] as const),
    [`headgate-image-${VERSION}.tar.gz`, "app/package.json"],
  ] as const) {
    expect(JSON.parse(read(archive, file)), archive).toMatchObject({ version: VERSION, license: "Apache-2.0" });
  }
  expect(read(`headgate-chart-${VERSION}.tgz`, "headgate/Chart.yaml")).toContain(`\nappVersion: ${VERSION}\n`);
  expect(readFileSync(join(out, "tried/NOTES.md"), "utf8")).toMatch(/^- Something that operators notice\.\n/);
});

test("says in its bills what callers of each package get", () => {
  const names = (file: string) => {
    const bill = JSON.parse(readFileSync(join(out, "tried", file), "utf8")) as { components: { name: string }[] };
    return bill.components.map(({ name }) => name);
  };
  expect(names(`headgate-client-${VERSION}.sbom.cdx.json`)).toContain("@grpc/grpc-js");
  expect(names(`headgate-client-${VERSION}.sbom.cdx.json`)).not.toContain("pg");
  expect(names(`headgate-${VERSION}.sbom.cdx.json`)).toEqual(expect.arrayContaining(["@grpc/grpc-js", "pg"]));
});

test("is not published without its tag, nor with changes that are not committed", () => {
  expect(release(VERSION, "--write").status).toBe(0);
  expect(release(VERSION, "--publish").said).toContain("expected a checkout without changes");
  commit(`Release ${VERSION}`);
  expect(release(VERSION, "--publish").said).toContain(`expected the tag v${VERSION}`);
  expect(release(VERSION, "--write", "--publish").said).toContain("usage:");
  expect(published()).toEqual([]);
});

// Promise(operators): A release publishes the bytes that were tested, reproducible byte by byte.
test(
  "that is published is what was tried, byte by byte, and signed before; nothing else is",
  () => {
    git("tag", `v${VERSION}`);
    const { status, said } = release(VERSION, "--publish", "--out", join(out, "published"));
    expect(status, said).toBe(0);
    expect(sums(join(out, "published"))).toBe(sums(join(out, "tried")));
    const at = (name: string) => join(out, "published", name);
    const bill = at(`headgate-${VERSION}.sbom.cdx.json`);
    const name = `${IMAGE}:${VERSION}`;
    const attested = [...PACKED, "image"].map(() => "cosign attest-blob");
    const signed = published().slice(0, 1 + attested.length);
    const rest = published().slice(signed.length);
    expect(signed.map((line) => line.split(" ", 2).join(" "))).toEqual(["cosign sign-blob", ...attested]);
    expect(rest.slice(0, -1)).toEqual([
      ...[...PACKED, "headgate"].map((name) => `npm publish --provenance ${at(`${name}-${VERSION}.tgz`)}`),
      `docker build --file ${repository}/deploy/Dockerfile --tag ${name} ${repository}`,
      `docker push ${name}`,
      `cosign sign --yes ${IMAGE}@sha256:abc`,
      `cosign attest --yes --type cyclonedx --predicate ${bill} ${IMAGE}@sha256:abc`,
    ]);
    const page = rest.at(-1);
    expect(page).toMatch(new RegExp(`^gh release create v${VERSION} --verify-tag --notes-file `));
    for (const file of FILES) expect(page).toContain(` ${at(file)}`);
  },
  RELEASE_MS,
);

test("can be verified with the files of its page", () => {
  const [page = ""] = published().slice(-1);
  const folder = temporaryFolder("headgate-release-page");
  const files = page.split(" ").filter((word) => word.startsWith(join(out, "published")));
  for (const file of files) copyFileSync(file, join(folder, basename(file)));
  const at = (name: string) => join(folder, name);
  expect(isSigned(at("SHA256SUMS.sigstore.json"), at("SHA256SUMS"))).toBe(true);
  for (const [bill, file] of [
    ["headgate", `headgate-image-${VERSION}.tar.gz`],
    ...PACKED.map((name) => [name, `${name}-${VERSION}.tgz`] as const),
  ] as const)
    expect(isSigned(at(`${file}.sigstore.json`), at(`${bill}-${VERSION}.sbom.cdx.json`), at(file))).toBe(true);
  const check = () => spawnSync("sha256sum", ["--check", "--quiet", "SHA256SUMS"], { cwd: folder }).status;
  expect(check()).toBe(0);
  appendFileSync(at(`headgate-chart-${VERSION}.tgz`), "x");
  expect(check()).toBe(1);
  appendFileSync(at("SHA256SUMS"), "\n");
  expect(isSigned(at("SHA256SUMS.sigstore.json"), at("SHA256SUMS"))).toBe(false);
});

test("goes into no folder that holds something else", () => {
  mkdirSync(join(out, "full/inside"), { recursive: true });
  expect(release(VERSION, "--publish", "--out", join(out, "full")).said).toContain("is not empty");
  expect(readdirSync(join(out, "full"))).toEqual(["inside"]);
});
