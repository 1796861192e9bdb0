// A release of what is committed, from trying to publishing, in a copy of the repository. npm and gh are stand-ins where they would
// publish: they write down what they were asked for.

import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const VERSION = "98.7.6";
const RELEASE_MS = 300_000;
const FILES = [
  "NOTES.md",
  "SHA256SUMS",
  `headgate-${VERSION}.sbom.cdx.json`,
  `headgate-${VERSION}.tgz`,
  `headgate-chart-${VERSION}.tgz`,
  `headgate-client-${VERSION}.sbom.cdx.json`,
  `headgate-client-${VERSION}.tgz`,
  `headgate-image-${VERSION}.tar.gz`,
];

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
  writeFileSync(join(programs, "gh"), standIn, { mode: 0o755 });
  writeFileSync(join(programs, "npm"), `#!/bin/sh\n[ "$1" = publish ] || exec "${npm}" "$@"\n${standIn}`, {
    mode: 0o755,
  });
  env = { ...process.env, ...IDENTITY, PATH: `${programs}${delimiter}${process.env.PATH}` };
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
      "both packages install elsewhere, the client loads by import and require, and the command runs",
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
    [`headgate-client-${VERSION}.tgz`, "package/package.json"],
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
  "that is published is what was tried, byte by byte; nothing else is",
  () => {
    git("tag", `v${VERSION}`);
    const { status, said } = release(VERSION, "--publish", "--out", join(out, "published"));
    expect(status, said).toBe(0);
    expect(sums(join(out, "published"))).toBe(sums(join(out, "tried")));
    const at = (name: string) => join(out, "published", name);
    const [client, service, page] = published();
    expect([client, service]).toEqual([
      `npm publish ${at(`headgate-client-${VERSION}.tgz`)}`,
      `npm publish ${at(`headgate-${VERSION}.tgz`)}`,
    ]);
    expect(page).toMatch(new RegExp(`^gh release create v${VERSION} --verify-tag --notes-file `));
    for (const name of FILES) expect(page).toContain(` ${at(name)}`);
    expect(published()).toHaveLength(3);
  },
  RELEASE_MS,
);

test("goes into no folder that holds something else", () => {
  mkdirSync(join(out, "full/inside"), { recursive: true });
  expect(release(VERSION, "--publish", "--out", join(out, "full")).said).toContain("is not empty");
  expect(readdirSync(join(out, "full"))).toEqual(["inside"]);
});
