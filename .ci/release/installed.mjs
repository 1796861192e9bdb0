// Installs the packages of a release in projects elsewhere, as callers do, and sees that they load and say their version.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { run, say, withFolder } from "./run.mjs";

/** Throws if a package in `out` can't be installed or used. */
export function tryPackages(out, version) {
  const inFolder = (name, use) =>
    withFolder("headgate-installed", (folder) => {
      install(folder, join(out, `${name}-${version}.tgz`));
      use(folder);
    });
  inFolder("headgate-client", load);
  const asModule = (use) => (folder) => run(process.execPath, ["--input-type=module", "--eval", use], { cwd: folder });
  inFolder(
    "headgate-fast-lane",
    asModule('import { serve } from "@headgate/fast-lane"; (await serve({ methods: [] })).drain(0)'),
  );
  inFolder("headgate-verify", asModule('import { readPlan } from "@headgate/verify"; readPlan({}, 1)'));
  inFolder("headgate", (folder) => {
    const said = run(join(folder, "node_modules/.bin/headgate"), ["--version"], { cwd: folder }).trim();
    if (said !== version) throw new Error(`expected the installed headgate to be ${version}, it says ${said}`);
    run(join(folder, "node_modules/.bin/headgate"), ["check", "node_modules/headgate/deploy/rules"], { cwd: folder });
  });
  say("all packages install elsewhere and load, the client by import and require, and the command runs");
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
