// Installs the packages of a release in projects elsewhere, as callers do, and sees that they load and say their version.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { run, say, withFolder } from "./run.mjs";

/** Throws if a package in `out` can't be installed or used. */
export function tryPackages(out, version) {
  withFolder("headgate-installed", (folder) => {
    install(folder, join(out, `headgate-client-${version}.tgz`));
    load(folder);
  });
  withFolder("headgate-installed", (folder) => {
    install(folder, join(out, `headgate-${version}.tgz`));
    const said = run(join(folder, "node_modules/.bin/headgate"), ["--version"], { cwd: folder }).trim();
    if (said !== version) throw new Error(`expected the installed headgate to be ${version}, it says ${said}`);
    run(join(folder, "node_modules/.bin/headgate"), ["check", "node_modules/headgate/deploy/rules"], { cwd: folder });
  });
  say("both packages install elsewhere, the client loads by import and require, and the command runs");
}

function install(folder, file) {
  writeFileSync(join(folder, "package.json"), '{ "private": true }');
  const npm = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error", file];
  run("npm", npm, { cwd: folder });
}

function load(folder) {
  const name = "@headgate/client";
  const use = 'createLimiter({ servers: ["localhost:8081"] }).close()';
  run(process.execPath, ["--input-type=module", "--eval", `import { createLimiter } from "${name}"; ${use}`], {
    cwd: folder,
  });
  run(process.execPath, ["--input-type=commonjs", "--eval", `const { createLimiter } = require("${name}"); ${use}`], {
    cwd: folder,
  });
}
