// Runs once before the tests of the page: finds Chromium, or installs Debian's and the page's first font. CHROMIUM names another program in its place.

import { spawnSync } from "node:child_process";

const COMMANDS = [
  ["apt-get", "update", "-q"],
  ["apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium", "fonts-inter"],
];

const WANTED = "The tests of the page need Chromium on the PATH, as `chromium`, or its program in CHROMIUM";

/** The browser's program. */
export function chromiumProgram(): string {
  const named = process.env.CHROMIUM;
  if (named !== undefined) return named;
  const { stdout } = spawnSync("sh", ["-c", "command -v chromium"], { encoding: "utf8" });
  return stdout.trim();
}

/** Vitest's hook. Throws a plain sentence when Chromium is neither there nor to be had. */
export default function requireChromium(): void {
  if (chromiumProgram() !== "") return;
  const sudo = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  for (const command of COMMANDS) {
    const [program = "", ...args] = [...sudo, ...command];
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    const { status, stderr } = spawnSync(program, args, { encoding: "utf8", env });
    if (status === 0) continue;
    const said = (stderr ?? "").trim().split("\n").pop();
    throw new Error(`${WANTED}, and \`${[program, ...args].join(" ")}\` failed: ${said || "it could not be run"}.`);
  }
  if (chromiumProgram() === "") throw new Error(`${WANTED}; apt-get installed it somewhere else.`);
}
