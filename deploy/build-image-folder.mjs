// Puts what the container image holds into a folder: the compiled service, its files, production dependencies, and the
// programs /bin/ratelimit and the health check. The Dockerfile runs this and copies the result; without a container
// engine the folder can be started as it is (test/integration/deploy-image.long.test.ts does).
//
//   npm ci && node deploy/build-image-folder.mjs OUT      OUT must not exist yet or be empty
//
// The same sources and lock file give the same bytes, modes and times: the digest printed at the end stays the same.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { writeBillOfMaterials } from "./bill-of-materials.mjs";

/** The one time that everything in the folder has: SOURCE_DATE_EPOCH (seconds), or the beginning of 1980. */
const TIME_SECONDS = Number(process.env.SOURCE_DATE_EPOCH ?? 315_532_800);
/** Where the lock file has the optional peers, with all that they alone need. */
const PEERS = "node_modules/@opentelemetry/";
const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const out = process.argv[2];
if (out === undefined) fail("usage: node deploy/build-image-folder.mjs OUT");
if (existsSync(out) && readdirSync(out).length > 0) fail(`${out} is not empty; name a folder that is new or empty`);
const tsc = join(ROOT, "node_modules/.bin/tsc");
if (!existsSync(tsc)) fail("the compiler is missing: run `npm ci` first");

const app = join(resolve(out), "app");
mkdirSync(app, { recursive: true });
copyFiles();
compile();
installDependencies();
addPrograms();
settleModesAndTimes(resolve(out));
process.stdout.write(`${resolve(out)}: ${digestOf(resolve(out))}\n`);

/** The licence, and what package.json lists under `files`, except what is compiled and what only people read. */
function copyFiles() {
  for (const path of ["LICENSE", ...readJson("package.json").files]) {
    if (!/^(?:!.*|.*dist|docs|examples|deploy\/(?:cases|envoy)|.*\.md)$/.test(path))
      cpSync(join(ROOT, path), join(app, path), { recursive: true });
  }
}

/** Compiles the service, and the packages that its own package carries. */
function compile() {
  const emit = (project, out, ...more) =>
    run(
      tsc,
      ["-p", project, "--outDir", join(app, out), "--declaration", "false", "--sourceMap", "false", ...more],
      ROOT,
    );
  emit("tsconfig.build.json", "dist", "--rootDir", "src", "--noCheck", "--noResolve");
  for (const out of readJson("package.json").files.filter((path) => /^packages\/.*dist$/.test(path)))
    emit(dirname(out), out);
  cpSync(join(ROOT, "proto/envoy"), join(app, "packages/verify/dist/proto/envoy"), { recursive: true });
}

/**
 * Installs exactly what the lock file names for production, and the optional peers: nobody can add them to an image that has no
 * package manager. Manifest and lock file in the image know nothing of tools for development, of scripts, or of the client,
 * which is for other people's processes. No install script runs: no production dependency needs one.
 */
function installDependencies() {
  const { name, version, license, type, engines, bin, imports, ...lists } = readJson("package.json");
  const peers = Object.keys(lists.peerDependencies).map((peer) => [peer, lists.devDependencies[peer]]);
  const dependencies = { ...lists.dependencies, ...Object.fromEntries(peers) };
  const manifest = { name, version, license, type, engines, bin, imports, dependencies };
  const lock = readJson("package-lock.json");
  const kept = Object.entries(lock.packages)
    .filter(([path, entry]) => path.includes("node_modules/") && entry.link !== true)
    // devOptional: tests need it, and so do optional peers of the client.
    .filter(([path, entry]) => (entry.dev !== true && entry.devOptional !== true) || path.startsWith(PEERS))
    .map(([path, { dev: _, ...entry }]) => [path, entry]);
  writeJson("package.json", manifest);
  writeJson("package-lock.json", { ...lock, packages: { "": manifest, ...Object.fromEntries(kept) } });
  run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], app);
  writeBillOfMaterials({
    folder: app,
    file: join(app, "sbom.cdx.json"),
    component: { name, type: "application" },
    seconds: TIME_SECONDS,
  });
  rmSync(join(app, "node_modules/.package-lock.json"), { force: true });
  rmSync(join(app, "package-lock.json"));
}

/** Envoy Gateway and Istio's manifests start the service as /bin/ratelimit. */
function addPrograms() {
  cpSync(join(ROOT, "deploy/image"), join(app, "bin"), { recursive: true });
  mkdirSync(join(resolve(out), "bin"));
  symlinkSync("../app/bin/ratelimit", join(resolve(out), "bin/ratelimit"));
}

/** Everybody may read, nobody needs to write. */
function settleModesAndTimes(path) {
  const stat = lstatSync(path);
  if (stat.isDirectory()) for (const name of readdirSync(path)) settleModesAndTimes(join(path, name));
  if (!stat.isSymbolicLink()) chmodSync(path, stat.isDirectory() || (stat.mode & 0o100) !== 0 ? 0o755 : 0o644);
  lutimesSync(path, TIME_SECONDS, TIME_SECONDS);
}

/** SHA-256 over path, mode and content of everything in the folder, in order. */
function digestOf(root) {
  const hash = createHash("sha256");
  const add = (path) => {
    const full = join(root, path);
    const stat = lstatSync(full);
    hash.update(`${path}\0${stat.mode.toString(8)}\0${stat.mtimeMs}\0`);
    if (stat.isSymbolicLink()) hash.update(readlinkSync(full));
    else if (stat.isFile()) hash.update(readFileSync(full));
    else for (const name of readdirSync(full).sort()) add(join(path, name));
  };
  add("");
  return `sha256:${hash.digest("hex")}`;
}

function readJson(name) {
  return JSON.parse(readFileSync(join(ROOT, name), "utf8"));
}

function writeJson(name, value) {
  writeFileSync(join(app, name), `${JSON.stringify(value, null, 2)}\n`);
}

function run(program, args, cwd) {
  // What a program says goes to stderr; stdout has the digest only.
  const { status, error } = spawnSync(program, args, { cwd, stdio: ["ignore", 2, 2] });
  if (status !== 0)
    fail(`\`${[program, ...args].join(" ")}\` failed${error === undefined ? "" : `: ${error.message}`}`);
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
