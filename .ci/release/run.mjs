// Programs and folders of the release script.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Tells whoever runs the script what goes on. */
export function say(line) {
  process.stdout.write(`${line}\n`);
}

/** Runs a program to its end and returns what it wrote to its standard output. Throws if it fails; what it complains of is shown. */
export function run(program, args, options = {}) {
  const { status, stdout, error } = spawnSync(program, args, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    ...options,
  });
  if (status === 0) return stdout;
  process.stderr.write(stdout ?? "");
  throw new Error(`\`${[program, ...args].join(" ")}\` failed${error === undefined ? "" : `: ${error.message}`}`);
}

/** Has `work` use a new folder, which goes when it is done. */
export function withFolder(name, work) {
  const folder = mkdtempSync(join(tmpdir(), `${name}-`));
  try {
    return work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
