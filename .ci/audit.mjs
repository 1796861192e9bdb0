// Asks the package registry whether a version in the lock file is known to be vulnerable. Fails for what is high or
// critical; a registry that does not answer fails nothing.
//   npm run audit

import { spawnSync } from "node:child_process";

const ANSWER_BYTES_MAX = 67_108_864;
const PATIENCE_MS = 60_000;

const { stdout } = spawnSync("npm", ["audit", "--json"], {
  encoding: "utf8",
  maxBuffer: ANSWER_BYTES_MAX,
  timeout: PATIENCE_MS,
  stdio: ["ignore", "pipe", "ignore"],
});
const found = parse(stdout ?? "")?.vulnerabilities;
if (found === undefined) {
  process.stdout.write("the package registry answers no audit; nothing was checked\n");
  process.exit(0);
}
const all = Object.values(found);
for (const { name, severity, range, isDirect } of all) {
  process.stdout.write(`${severity}: ${name} ${range}${isDirect ? "" : ", through other packages"}\n`);
}
const grave = all.filter(({ severity }) => severity === "high" || severity === "critical");
process.stdout.write(`${all.length} packages with known vulnerabilities, ${grave.length} of them high or critical\n`);
process.exit(grave.length === 0 ? 0 : 1);

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
