// How the bench gets a program that it needs: on a PATH of the test's own, with package managers that only say they install.

import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const MODULE = resolve(import.meta.dirname, "../../../bench/harness/require-program.mjs");
const PROGRAM = `import(${JSON.stringify(MODULE)}).then(({ requireProgram }) => requireProgram("h2load")).catch((error) => {
  console.error(error.message);
  process.exit(1);
});`;

let folder: string;
beforeEach(() => {
  folder = temporaryFolder("headgate-require");
  // Whoever is not root asks sudo first; "-n" is its first argument.
  addProgram("sudo", 'shift\nexec "$@"');
});

function addProgram(name: string, script: string): void {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
}

/** A package manager that writes down what it was asked, and makes h2load if it is to. */
function addManager(name: string, { installs, status = 0 }: { installs: boolean; status?: number }): void {
  const make = installs ? `case "$*" in *nghttp2*) cp "${folder}/${name}" "${folder}/h2load";; esac` : "";
  addProgram(
    name,
    `PATH=$PATH:/bin:/usr/bin\necho "${name} $*" >> "${folder}/asked"\n${make}\n[ "$1" = --version ] || exit ${status}`,
  );
}

function requireH2load(): { status: number | null; said: string; asked: string[] } {
  const { status, stderr } = spawnSync(process.execPath, ["-e", PROGRAM], { encoding: "utf8", env: { PATH: folder } });
  const file = join(folder, "asked");
  const asked = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
  return { status, said: stderr, asked: asked.filter((line) => !line.endsWith("--version")) };
}

describe("a program that the bench needs", () => {
  test("is taken as it is where it is there", () => {
    addProgram("h2load", "exit 0");
    addManager("apt-get", { installs: true });
    expect(requireH2load()).toEqual({ status: 0, said: "", asked: [] });
  });

  test.each([
    {
      manager: "apt-get",
      asked: ["apt-get update -q", "apt-get install -y -q --no-install-recommends nghttp2-client"],
    },
    { manager: "dnf", asked: ["dnf install -y -q nghttp2"] },
    { manager: "apk", asked: ["apk add --no-cache nghttp2"] },
    { manager: "brew", asked: ["brew install nghttp2"] },
  ])("is installed by $manager", ({ manager, asked }) => {
    addManager(manager, { installs: true });
    expect(requireH2load()).toEqual({ status: 0, said: "", asked });
  });

  test.each([
    { name: "that fails", installs: false, status: 100, why: /apt-get update -q` failed/ },
    { name: "that puts it elsewhere", installs: false, status: 0, why: /installed it somewhere else/ },
  ])("is asked for in one sentence after a package manager $name", ({ installs, status, why }) => {
    addManager("apt-get", { installs, status });
    const found = requireH2load();
    expect(found.status).toBe(1);
    expect(found.said.trim()).toMatch(why);
    expect(found.said.trim()).toMatch(/^the bench needs h2load \(Debian: nghttp2-client\) on the PATH[^\n]*$/);
  });

  test("is asked for in one sentence where there is no package manager", () => {
    expect(requireH2load()).toEqual({
      status: 1,
      said: "the bench needs h2load (Debian: nghttp2-client) on the PATH, and no known package manager is there to install it\n",
      asked: [],
    });
  });
});
