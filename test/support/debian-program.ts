// Programs of Debian that tests run: the one on the PATH, or Debian's, unpacked into the project's .cache and never installed.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const CACHE = resolve(import.meta.dirname, "../../.cache");

interface DebianProgram {
  readonly name: string;
  /** Below the unpacked packages. */
  readonly path: string;
  readonly packages: readonly string[];
  /** Makes it say its version and end; --version if absent. */
  readonly versionOption?: string;
  /** True: Debian 12 has it among its backports only. */
  readonly isBackport?: boolean;
}

/** Path of valkey-server, 7.2 or newer. Throws a plain sentence when it is neither there nor to be had. */
export function valkeyServer(): string {
  return program({
    name: "valkey-server",
    path: "usr/bin/valkey-server",
    packages: ["valkey-server", "valkey-tools"],
    isBackport: true,
  });
}

/** Path of pgbouncer. Throws as above. */
export function pgbouncer(): string {
  return program({
    name: "pgbouncer",
    path: "usr/sbin/pgbouncer",
    packages: ["pgbouncer", "libevent-2.1-7", "libc-ares2"],
  });
}

/** Path of nginx. Throws as above. */
export function nginx(): string {
  return program({ name: "nginx", path: "usr/sbin/nginx", packages: ["nginx"], versionOption: "-v" });
}

/** Path of haproxy with Lua, 2.6 or newer. Throws as above. */
export function haproxy(): string {
  const libraries = ["liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1", "libpcre2-8-0", "libsystemd0"];
  return program({
    name: "haproxy",
    path: "usr/sbin/haproxy",
    packages: ["haproxy", ...libraries],
    versionOption: "-v",
  });
}

/** Path of the compiler of Lua 5.1, whose syntax LuaJIT has. Throws as above. */
export function luac(): string {
  return program({ name: "luac5.1", path: "usr/bin/luac5.1", packages: ["lua5.1"], versionOption: "-v" });
}

function program(wanted: DebianProgram): string {
  if (run(wanted.name, [wanted.versionOption ?? "--version"]) === undefined) return wanted.name;
  const path = join(folderOf(wanted), wanted.path);
  if (!existsSync(path)) fetch(wanted);
  return path;
}

/** The environment in which an unpacked program finds its libraries. */
export function unpackedLibraries(path: string): NodeJS.ProcessEnv {
  const root = path.slice(0, path.lastIndexOf("/usr/"));
  const folders = ["usr/lib", "lib"].flatMap((lib) => {
    const folder = join(root, lib);
    return existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : [];
  });
  return { ...process.env, LD_LIBRARY_PATH: folders.join(":") };
}

function folderOf({ name }: DebianProgram): string {
  return join(CACHE, name);
}

// Lists and archives are kept apart, so that backports do not become a source of the system.
function fetch(wanted: DebianProgram): void {
  const folder = folderOf(wanted);
  mkdirSync(join(folder, "lists/partial"), { recursive: true });
  mkdirSync(join(folder, "cache/archives/partial"), { recursive: true });
  const own = ["-o", `Dir::State::lists=${join(folder, "lists")}`, "-o", `Dir::Cache=${join(folder, "cache")}`];
  if (wanted.isBackport && /^VERSION_CODENAME=bookworm$/m.test(osRelease())) {
    const list = join(folder, "sources.list");
    writeFileSync(list, `deb ${mirror("bookworm", wanted)} bookworm-backports main\n`);
    own.push("-o", `Dir::Etc::sourcelist=${list}`, "-o", "Dir::Etc::sourceparts=/dev/null");
  }
  must(wanted, "apt-get", [...own, "update", "-q"]);
  must(wanted, "apt-get", [...own, "download", "-q", ...wanted.packages]);
  for (const name of readdirSync(folder)) if (name.endsWith(".deb")) must(wanted, "dpkg-deb", ["-x", name, folder]);
  const path = join(folder, wanted.path);
  must(wanted, path, [wanted.versionOption ?? "--version"], unpackedLibraries(path));
}

/** Address of the archive that the system itself takes this release of Debian from. */
function mirror(release: string, { name }: DebianProgram): string {
  const format = ["indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"];
  const lines = spawnSync("apt-get", format, { encoding: "utf8" }).stdout?.split("\n") ?? [];
  const found = lines.find((line) => line.startsWith(`${release} `));
  if (found === undefined)
    throw new Error(`The tests need ${name} on the PATH: apt-get names no archive for ${release}.`);
  return found.slice(release.length + 1);
}

function osRelease(): string {
  return existsSync("/etc/os-release") ? readFileSync("/etc/os-release", "utf8") : "";
}

function must(wanted: DebianProgram, command: string, args: readonly string[], env = process.env): void {
  const trouble = run(command, args, folderOf(wanted), env);
  if (trouble === undefined) return;
  throw new Error(
    `The tests need ${wanted.name} on the PATH, and \`${command}\`, to have Debian's, failed: ${trouble}`,
  );
}

/** Why a command failed; undefined if it did not. */
function run(command: string, args: readonly string[], cwd?: string, env = process.env): string | undefined {
  const { status, stderr, error } = spawnSync(command, args, { encoding: "utf8", cwd, env });
  if (status === 0) return undefined;
  return stderr?.trim().split("\n").pop() || error?.message || `it ended with ${status}`;
}
