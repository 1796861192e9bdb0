// Makes the files of a release out of a copy of the repository: packages, the image's folder, the chart, bills of materials,
// notes and checksums. The same commit gives the same bytes.

import { createHash } from "node:crypto";
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeBillOfMaterials } from "../../deploy/bill-of-materials.mjs";
import { run, say, withFolder } from "./run.mjs";
import { packagesOf, sectionOf } from "./version.mjs";

/** Writes all files into `out`. `root` is the copy, `seconds` the time that everything in archives has. */
export function makeArtifacts({ root, out, version, seconds }) {
  run("npm", ["run", "--silent", "build"], { cwd: root });
  const packages = packagesOf(root);
  for (const folder of [".", ...packages]) pack(join(root, folder), out);
  withFolder("headgate-image", (image) => {
    const env = { ...process.env, SOURCE_DATE_EPOCH: String(seconds) };
    run(process.execPath, [join(root, "deploy/build-image-folder.mjs"), image], { cwd: root, env });
    archive(image, ["app", "bin"], join(out, `headgate-image-${version}.tar.gz`), seconds);
    cpSync(join(image, "app/sbom.cdx.json"), join(out, `headgate-${version}.sbom.cdx.json`));
  });
  archive(join(root, "deploy/helm"), ["headgate"], join(out, `headgate-chart-${version}.tgz`), seconds);
  for (const path of packages) billPackage(root, path, out, seconds);
  const notes = sectionOf(readFileSync(join(root, "CHANGELOG.md"), "utf8"), version);
  writeFileSync(join(out, "NOTES.md"), `${notes}\n`);
  writeFileSync(join(out, "SHA256SUMS"), checksumsOf(out));
  for (const name of readdirSync(out).toSorted()) say(`  ${name}`);
}

function pack(folder, out) {
  run("npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", out], { cwd: folder });
}

// GNU tar alone orders names and sets times and owners.
function archive(folder, names, file, seconds) {
  const alike = [
    "--sort=name",
    `--mtime=@${seconds}`,
    "--owner=0",
    "--group=0",
    "--numeric-owner",
    "--mode=u=rwX,go=rX",
  ];
  run("tar", [...alike, "--use-compress-program=gzip -n", "-cf", file, "-C", folder, ...names]);
}

function checksumsOf(folder) {
  const lines = readdirSync(folder)
    .toSorted()
    .map(
      (name) =>
        `${createHash("sha256")
          .update(readFileSync(join(folder, name)))
          .digest("hex")}  ${name}\n`,
    );
  return lines.join("");
}

function billPackage(root, path, out, seconds) {
  withFolder("headgate-package", (folder) => {
    const { name, version } = lockPackage(root, path, folder);
    const file = join(out, `${name.replace("@headgate/", "headgate-")}-${version}.sbom.cdx.json`);
    writeBillOfMaterials({ folder, file, component: { name, type: "library" }, seconds });
  });
}

/**
 * Writes a package's manifest into `folder`, and of the lock file what it needs. Asked for one workspace of the whole lock file,
 * npm loses packages that the service's optional peers need too.
 */
function lockPackage(root, path, folder) {
  const manifest = JSON.parse(readFileSync(join(root, path, "package.json"), "utf8"));
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  const { name, version, license, dependencies = {} } = manifest;
  const packages = { "": { name, version, license, dependencies } };
  const wanted = Object.keys(dependencies).map((dependency) => ({ dependency, of: "" }));
  for (const { dependency, of } of wanted) {
    const path = placeOf(lock.packages, dependency, of);
    if (path in packages) continue;
    packages[path] = lock.packages[path];
    const more = Object.keys(lock.packages[path].dependencies ?? {});
    wanted.push(...more.map((each) => ({ dependency: each, of: path })));
  }
  writeFileSync(join(folder, "package.json"), JSON.stringify(packages[""]));
  writeFileSync(join(folder, "package-lock.json"), JSON.stringify({ ...lock, name, packages }));
  return manifest;
}

/** Where the lock file has what a package gets that asks for `dependency`: below itself, or below one that it lies in. */
function placeOf(packages, dependency, of) {
  for (let at = of; ; at = at.slice(0, Math.max(0, at.lastIndexOf("/node_modules/")))) {
    const path = `${at === "" ? "" : `${at}/`}node_modules/${dependency}`;
    if (path in packages) return path;
    if (at === "") throw new Error(`package-lock.json has no ${dependency}, which ${of || "a package of ours"} needs`);
  }
}
