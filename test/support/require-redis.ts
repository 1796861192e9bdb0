// Runs once before the tests that need servers: finds redis-server, or installs it with the system's package manager.

import { spawnSync } from "node:child_process";

/** A way to install redis-server: commands to run one after another. */
interface Installer {
  readonly manager: string;
  readonly needsRoot: boolean;
  readonly commands: readonly (readonly string[])[];
}

const INSTALLERS: readonly Installer[] = [
  {
    manager: "apt-get",
    needsRoot: true,
    commands: [
      ["apt-get", "update", "-q"],
      ["apt-get", "install", "-y", "-q", "--no-install-recommends", "redis-server"],
    ],
  },
  { manager: "dnf", needsRoot: true, commands: [["dnf", "install", "-y", "-q", "redis"]] },
  { manager: "apk", needsRoot: true, commands: [["apk", "add", "--no-cache", "redis"]] },
  { manager: "brew", needsRoot: false, commands: [["brew", "install", "redis"]] },
];

const WANTED = "The tests with real servers need redis-server (version 6.2 or newer) on the PATH";

/** Vitest's hook. Throws a plain sentence when redis-server is neither there nor to be had. */
export default function requireRedis(): void {
  if (runs("redis-server", "--version")) return;
  const installer = INSTALLERS.find(({ manager }) => runs(manager, "--version"));
  if (installer === undefined) {
    const known = INSTALLERS.map(({ manager }) => manager).join(", ");
    throw new Error(`${WANTED}, and none of ${known} is there to install it. Please install it by hand.`);
  }
  const sudo = installer.needsRoot && process.getuid?.() !== 0 ? ["sudo", "-n"] : [];
  for (const command of installer.commands) {
    const [program = "", ...args] = [...sudo, ...command];
    const { status, stderr } = spawnSync(program, args, {
      encoding: "utf8",
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    });
    if (status !== 0) {
      const said = (stderr ?? "").trim().split("\n").pop();
      throw new Error(`${WANTED}, and \`${[program, ...args].join(" ")}\` failed: ${said || "it could not be run"}.`);
    }
  }
  if (!runs("redis-server", "--version"))
    throw new Error(`${WANTED}; ${installer.manager} installed it somewhere else.`);
}

function runs(program: string, ...args: string[]): boolean {
  return spawnSync(program, args, { stdio: "ignore" }).status === 0;
}
