// Finds a program that a bench needs, or installs it with the system's package manager.

import { spawnSync } from "node:child_process";

/** Package of each program, by package manager. */
const PACKAGES = {
  h2load: { "apt-get": "nghttp2-client", dnf: "nghttp2", apk: "nghttp2", brew: "nghttp2" },
  postgres: { "apt-get": "postgresql", dnf: "postgresql-server", apk: "postgresql", brew: "postgresql@17" },
  "redis-server": { "apt-get": "redis-server", dnf: "redis", apk: "redis", brew: "redis" },
};
const COMMANDS = {
  "apt-get": [
    ["apt-get", "update", "-q"],
    ["apt-get", "install", "-y", "-q", "--no-install-recommends"],
  ],
  dnf: [["dnf", "install", "-y", "-q"]],
  apk: [["apk", "add", "--no-cache"]],
  brew: [["brew", "install"]],
};

/**
 * Returns once `program` is there; `isThere` looks for one that is not on the PATH. Throws one sentence if it is neither there
 * nor to be had.
 */
export function requireProgram(program, isThere = () => runs(program)) {
  if (isThere()) return;
  const manager = Object.keys(COMMANDS).find(runs);
  const wanted = `the bench needs ${program} (Debian: ${PACKAGES[program]["apt-get"]}) on the PATH`;
  if (manager === undefined) throw new Error(`${wanted}, and no known package manager is there to install it`);
  const sudo = manager !== "brew" && process.getuid?.() !== 0 ? ["sudo", "-n"] : [];
  const commands = COMMANDS[manager].map((command) => [...sudo, ...command]);
  commands.at(-1)?.push(PACKAGES[program][manager]);
  for (const [command, ...args] of commands) {
    const { status } = spawnSync(command, args, { stdio: "ignore" });
    if (status !== 0) throw new Error(`${wanted}, and \`${command} ${args.join(" ")}\` failed`);
  }
  if (!isThere()) throw new Error(`${wanted}; ${manager} installed it somewhere else`);
}

function runs(program) {
  return spawnSync(program, ["--version"], { stdio: "ignore" }).error === undefined;
}
