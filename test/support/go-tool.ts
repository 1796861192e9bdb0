// Programs written in Go that judge ours: built once into .cache/bin, where Go is installed.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

const BIN = resolve(import.meta.dirname, "../../.cache/bin");

/** The program built from `module`, such as example.org/cmd/name@v1.2.3; undefined, said aloud, where there is no Go. */
export function goTool(module: string): string | undefined {
  const name = module.slice(module.lastIndexOf("/") + 1).replace(/@.*/, "");
  const path = join(BIN, name);
  if (existsSync(path)) return path;
  if (spawnSync("go", ["version"]).status !== 0) {
    process.stdout.write(`not tried: ${name} must be built, and Go is not installed\n`);
    return undefined;
  }
  execFileSync("go", ["install", module], { env: { ...process.env, GOBIN: BIN }, stdio: "pipe" });
  return path;
}
