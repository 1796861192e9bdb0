// npm run soak -- --minutes 10 --seed 7 --store redis: hands its arguments to the test that soaks; what it does not know goes
// to vitest.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const KNOWN = { "--minutes": "SOAK_MINUTES", "--seed": "SOAK_SEED", "--store": "SOAK_STORE" };
const env = { ...process.env };
const rest = [];
for (let i = 2; i < process.argv.length; i++) {
  const [name, value] = process.argv[i].split("=", 2);
  if (KNOWN[name] === undefined) rest.push(process.argv[i]);
  else env[KNOWN[name]] = value ?? process.argv[++i];
}
const vitest = fileURLToPath(new URL("../../node_modules/vitest/vitest.mjs", import.meta.url));
const config = fileURLToPath(new URL("vitest.config.ts", import.meta.url));
const child = spawn(process.execPath, [vitest, "run", "--config", config, "--root", ".", ...rest], {
  env,
  stdio: "inherit",
});
child.on("exit", (code) => process.exit(code ?? 1));
