// The server program of Valkey: the one on the PATH, or Debian's, unpacked into the project's .cache and never installed.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const FOLDER = resolve(import.meta.dirname, "../../.cache/valkey");
const PROGRAM = join(FOLDER, "usr/bin/valkey-server");
const PACKAGES = ["valkey-server", "valkey-tools"];

/** Path of valkey-server. Throws a plain sentence when it is neither there nor to be had. */
export function valkeyServer(): string {
  if (run("valkey-server", ["--version"]) === undefined) return "valkey-server";
  if (!existsSync(PROGRAM)) fetch();
  return PROGRAM;
}

// Debian 13 has it; for Debian 12 it is among the backports, which are asked without becoming a source of the system.
function fetch(): void {
  mkdirSync(join(FOLDER, "lists/partial"), { recursive: true });
  mkdirSync(join(FOLDER, "cache/archives/partial"), { recursive: true });
  const own = ["-o", `Dir::State::lists=${join(FOLDER, "lists")}`, "-o", `Dir::Cache=${join(FOLDER, "cache")}`];
  if (/^VERSION_CODENAME=bookworm$/m.test(osRelease())) {
    const list = join(FOLDER, "sources.list");
    writeFileSync(list, `deb ${mirror("bookworm")} bookworm-backports main\n`);
    own.push("-o", `Dir::Etc::sourcelist=${list}`, "-o", "Dir::Etc::sourceparts=/dev/null");
  }
  must("apt-get", [...own, "update", "-q"]);
  must("apt-get", [...own, "download", "-q", ...PACKAGES]);
  for (const name of readdirSync(FOLDER)) if (name.endsWith(".deb")) must("dpkg-deb", ["-x", name, FOLDER]);
  const trouble = run(PROGRAM, ["--version"]);
  if (trouble !== undefined) throw new Error(`Debian's valkey-server does not run here: ${trouble}`);
}

/** Address of the archive that the system itself takes this release of Debian from. */
function mirror(release: string): string {
  const format = ["indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"];
  const lines = spawnSync("apt-get", format, { encoding: "utf8" }).stdout?.split("\n") ?? [];
  const found = lines.find((line) => line.startsWith(`${release} `));
  if (found === undefined)
    throw new Error(
      `The tests on Valkey need valkey-server (version 7.2 or newer) on the PATH: apt-get names no archive for ${release}.`,
    );
  return found.slice(release.length + 1);
}

function osRelease(): string {
  return existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : "";
}

function must(command: string, args: readonly string[]): void {
  const trouble = run(command, args);
  if (trouble === undefined) return;
  throw new Error(
    `The tests on Valkey need valkey-server (version 7.2 or newer) on the PATH, and \`${command}\`, which fetches Debian's, failed: ${trouble}`,
  );
}

/** Why a command failed; undefined if it did not. */
function run(command: string, args: readonly string[]): string | undefined {
  const { status, stderr, error } = spawnSync(command, args, { encoding: "utf8", cwd: cwdOf() });
  if (status === 0) return undefined;
  return stderr?.trim().split("\n").pop() || error?.message || `it ended with ${status}`;
}

function cwdOf(): string | undefined {
  return existsSync(FOLDER) ? FOLDER : undefined;
}
