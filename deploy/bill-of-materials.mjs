// Writes a bill of materials (CycloneDX): every package that a lock file names for production, with version, licence and hash,
// for scanners and audits.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";

const BILL_BYTES_MAX = 16_777_216;

/**
 * Has npm read the lock file in `folder` and writes what it says to `file`. The bill's time is `seconds`, and its number comes
 * from what it says, so that the same contents give the same file. `component` is what the bill is of.
 */
export function writeBillOfMaterials({ folder, file, component, seconds, args = [] }) {
  const npm = ["sbom", "--sbom-format=cyclonedx", "--package-lock-only", "--omit=dev", "--loglevel=error", ...args];
  const { status, stdout } = spawnSync("npm", npm, {
    cwd: folder,
    encoding: "utf8",
    maxBuffer: BILL_BYTES_MAX,
    stdio: ["ignore", "pipe", 2],
  });
  if (status !== 0) throw new Error(`\`npm ${npm.join(" ")}\` failed in ${folder}`);
  const bill = JSON.parse(stdout);
  bill.metadata.timestamp = new Date(seconds * 1_000).toISOString();
  // npm takes the folder's name.
  Object.assign(bill.metadata.component, component);
  delete bill.serialNumber;
  const hash = createHash("sha256").update(JSON.stringify(bill)).digest("hex");
  const parts = [
    hash.slice(0, 8),
    hash.slice(8, 12),
    `8${hash.slice(13, 16)}`,
    `8${hash.slice(17, 20)}`,
    hash.slice(20, 32),
  ];
  writeFileSync(file, `${JSON.stringify({ ...bill, serialNumber: `urn:uuid:${parts.join("-")}` }, null, 2)}\n`);
}
