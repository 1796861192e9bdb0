// Makes the files of a release out of a copy of the repository: packages, the image's folder, the chart, bills of materials,
// notes and checksums. The same commit gives the same bytes.

import { createHash } from "node:crypto";
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeBillOfMaterials } from "../../deploy/bill-of-materials.mjs";
import { run, say, withFolder } from "./run.mjs";
import { sectionOf } from "./version.mjs";

/** Writes all files into `out`. `root` is the copy, `seconds` the time that everything in archives has. */
export function makeArtifacts({ root, out, version, seconds }) {
  run("npm", ["run", "--silent", "build"], { cwd: root });
  for (const folder of [".", "client"]) pack(join(root, folder), out);
  withFolder("headgate-image", (image) => {
    const env = { ...process.env, SOURCE_DATE_EPOCH: String(seconds) };
    run(process.execPath, [join(root, "deploy/build-image-folder.mjs"), image], { cwd: root, env });
    archive(image, ["app", "bin"], join(out, `headgate-image-${version}.tar.gz`), seconds);
    cpSync(join(image, "app/sbom.cdx.json"), join(out, `headgate-${version}.sbom.cdx.json`));
  });
  archive(join(root, "deploy/helm"), ["headgate"], join(out, `headgate-chart-${version}.tgz`), seconds);
  writeBillOfMaterials({
    folder: root,
    file: join(out, `headgate-client-${version}.sbom.cdx.json`),
    component: { name: "@headgate/client", type: "library" },
    seconds,
    args: ["--workspace=client"],
  });
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
