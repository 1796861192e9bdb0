// What all packages of the repository have in common: licence and version; what its workflows run; how commits and files are kept.

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { PACKAGES } from "../support/own-packages.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const ROOT = resolve(import.meta.dirname, "../..");
/** What hosts and `git log --oneline` show whole. */
const SUBJECT_CHARS_MAX = 72;
const textOf = (file: string) => readFileSync(resolve(ROOT, file), "utf8");
const filesInGit = execFileSync("git", ["ls-files", "--eol"], { cwd: ROOT, encoding: "utf8" }).trimEnd().split("\n");
const names = filesInGit.map((line) => line.split("\t")[1] ?? "");

const manifests = names.filter((file) => /(^|\/)package\.json$/.test(file));

interface Manifest {
  readonly license?: string;
  readonly version?: string;
}

describe("packages", () => {
  test("`npm start` wants `npm ci` first, compiles only what was edited since, and says that it does", () => {
    const { prestart = "" } = (JSON.parse(textOf("package.json")) as { readonly scripts: Record<string, string> })
      .scripts;
    const folder = temporaryFolder("headgate-prestart");
    for (const path of ["src", "packages/client/src", "dist"]) mkdirSync(join(folder, path), { recursive: true });
    const written = (path: string, atS: number) => {
      writeFileSync(join(folder, path), "");
      utimesSync(join(folder, path), atS, atS);
    };
    for (const path of ["src/main.ts", "packages/client/src/client.ts", "tsconfig.json"]) written(path, 1_000);
    const said = () =>
      execFileSync("sh", ["-c", prestart.replace("npm run --silent build", "true")], { cwd: folder, encoding: "utf8" });
    expect(said).toThrow(expect.objectContaining({ status: 1, stdout: "Run npm ci first.\n" }));
    mkdirSync(join(folder, "node_modules"));
    expect(said()).toBe("Compiling ...\n");
    written("dist/main.js", 2_000);
    for (const path of ["src", "packages/client/src"]) utimesSync(join(folder, path), 1_000, 1_000);
    expect(said()).toBe("");
    written("packages/client/src/client.ts", 3_000);
    expect(said()).toBe("Compiling ...\n");
  });

  test("the service's package has what the README leads to, and nothing that an example has installed", () => {
    const folder = temporaryFolder("headgate-packed");
    const wanted = ["CHANGELOG.md", "deploy/cases/edge.yaml", "deploy/envoy/envoy.yaml", "examples/express/server.mjs"];
    const installed = [
      "express/node_modules/a/index.js",
      "express/package-lock.json",
      "python/.packages/grpc/__init__.py",
    ];
    const unwanted = installed.map((path) => `examples/${path}`);
    for (const path of [...wanted, ...unwanted]) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), "");
    }
    writeFileSync(join(folder, "package.json"), textOf("package.json"));
    const said = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
      cwd: folder,
      encoding: "utf8",
    });
    const packed = [...said.matchAll(/"path": "(.+)"/g)].map(([, path = ""]) => path);
    expect(packed.toSorted()).toEqual([...wanted, "package.json"].toSorted());
  });

  test("each names the licence of the repository, and so does the chart", () => {
    expect(manifests.length).toBeGreaterThan(2);
    const licences = manifests.map((file) => `${file}: ${(JSON.parse(textOf(file)) as Manifest).license}`);
    expect(licences).toEqual(manifests.map((file) => `${file}: Apache-2.0`));
    expect(textOf("deploy/helm/headgate/Chart.yaml")).toMatch(/^ {2}artifacthub\.io\/license: Apache-2\.0$/m);
    expect(textOf("LICENSE")).toMatch(/^\s+Apache License\n\s+Version 2\.0, January 2004\n/);
  });

  test("all have one version, and so have the chart, the image's name and the labels", () => {
    const { version } = JSON.parse(textOf("package.json")) as Manifest;
    const { packages } = JSON.parse(textOf("package-lock.json")) as { packages: Record<string, Manifest> };
    const own = PACKAGES.flatMap((folder) => [JSON.parse(textOf(`${folder}/package.json`)), packages[folder]]);
    expect([packages[""], ...own].filter((manifest: Manifest) => manifest?.version !== version)).toEqual([]);
    const named = /(?:^(?:version|appVersion): |headgate:(?=\d+\.\d)|app\.kubernetes\.io\/version: )(\d[\w.-]*\w)/gm;
    const pages = names.filter((file) => /^(README\.md|docs\/|deploy\/)/.test(file));
    const found = pages.flatMap((file) => [...textOf(file).matchAll(named)].map(([, each]) => `${file}: ${each}`));
    expect(found.filter((line) => !line.endsWith(`: ${version}`))).toEqual([]);
    expect(found.length).toBeGreaterThan(10);
  });

  test("no file is a link, and none names where packages come from: that is the machine's to say", () => {
    const entries = execFileSync("git", ["ls-files", "--stage"], { cwd: ROOT, encoding: "utf8" }).split("\n");
    expect(entries.filter((line) => line.startsWith("120000"))).toEqual([]);
    const archives = /https?:\/\/(?:deb|registry|proxy|pypi|files|repo1?|index|static|archive|ftp)\./;
    expect(names.filter((file) => archives.test(textOf(file)))).toEqual([]);
  });

  test("the lock file names no registry: packages come from the one that npm is told of", () => {
    expect(textOf("package-lock.json")).not.toContain('"resolved": "http');
  });
});

describe("workflows", () => {
  const folder = ".github/workflows";
  const workflows = names.filter((file) => file.startsWith(folder)).map((file) => ({ file, text: textOf(file) }));

  test.each(workflows)("$file runs the gate and the release script, and nothing that a developer can't", ({ text }) => {
    const commands = [...text.matchAll(/^\s*(?:- )?run: (.+)$/gm)].map(([, command = ""]) => command);
    expect(commands.filter((command) => !/^(\.ci\/run|node \.ci\/release\.mjs .*)$/.test(command))).toEqual([]);
    expect(commands).toContain(".ci/run");
    // What somebody else wrote into a title or a tag must not become part of a command.
    expect(commands.filter((command) => command.includes("${{"))).toEqual([]);
  });

  test.each(workflows)("$file takes actions of one version, and names no host", ({ text }) => {
    const actions = [...text.matchAll(/uses: (.+)$/gm)].map(([, action = ""]) => action);
    expect(
      actions.filter(
        (action) =>
          !/^(?:actions\/[a-z-]+|docker\/login-action)@v\d+$|^sigstore\/cosign-installer@v\d+\.\d+\.\d+$/.test(action),
      ),
    ).toEqual([]);
    expect(actions.length).toBeGreaterThan(1);
    expect(text).not.toMatch(/https?:|registry-url/);
  });
});

test("commits have subjects of at most 72 characters", () => {
  const subjects = execFileSync("git", ["log", "--format=%s", "-20"], { cwd: ROOT, encoding: "utf8" })
    .trim()
    .split("\n");
  expect(subjects.filter((subject) => subject.length > SUBJECT_CHARS_MAX)).toEqual([]);
});

describe("files in git", () => {
  test("end their lines in LF, except for bytes that a fuzzer found", () => {
    const wrong = filesInGit.filter((line) => /^i\/(crlf|mixed)/.test(line) && !line.includes("\ttest/fuzz/kept/"));
    expect(wrong).toEqual([]);
  });

  test("are kept byte by byte where they are no text, and checked out with LF where they are", () => {
    const attributes = (file: string) =>
      execFileSync("git", ["check-attr", "text", "eol", "--", file], { cwd: ROOT, encoding: "utf8" });
    expect(attributes("test/fuzz/kept/http/both-lengths.bin")).toContain("text: unset");
    expect(attributes("deploy/rules/edge.yaml")).toMatch(/text: auto\n.*eol: lf/);
  });
});
