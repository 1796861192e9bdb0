// 50,000 limits at run time imported into two processes on one Redis while one of them answers 5,000 calls a second: how long it takes, what
// calls wait meanwhile beside a time without an import, and whether both processes have the same in the end. The importer and the process that it
// asks get what the others leave of the cores, as if they had cores of their own elsewhere. Run after `npm run build`:
//   node bench/load/limits-import.mjs [limits]

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { constants, setPriority } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort } from "../harness/free-port.mjs";
import { startRedis } from "../harness/redis.mjs";
import { printTable, progress } from "../harness/report.mjs";
import { temporaryFolder } from "../harness/temporary-folder.mjs";

const run = promisify(execFile);
const PROGRAM = new URL("../../dist/main.js", import.meta.url).pathname;
const CALLER = new URL("caller.mjs", import.meta.url).pathname;
const LIMITS = Number(process.argv[2] ?? 50_000);
const RATE = 5_000;
const SECONDS_ALONE = 10;
const TOKEN = "a-token-of-this-bench";

const folder = temporaryFolder();
const rules = join(folder, "rules");
mkdirSync(rules);
writeFileSync(
  join(rules, "edge.yaml"),
  "domain: edge\ndescriptors:\n  - { key: tenant, rate_limit: { requests_per_unit: 1000000, unit: hour } }\n",
);
const file = join(folder, "limits.jsonl");
const lines = Array.from({ length: LIMITS }, (_, i) => {
  const entries = [{ key: "tenant", value: String(i).padStart(7, "0") }];
  return `${JSON.stringify({ domain: "edge", entries, requests_per_unit: 2_000_000 + (i % 10) })}\n`;
});
writeFileSync(file, lines.join(""));

const redis = await startRedis();
const processes = [await serve(), await serve()];
const [first, second] = processes;

async function serve() {
  const [grpc, http] = [await freePort(), await freePort()];
  const env = {
    ...process.env,
    RULES_DIR: rules,
    REDIS_URL: `127.0.0.1:${redis.port}`,
    GRPC_PORT: String(grpc),
    PORT: String(http),
    ADMIN_TOKEN: TOKEN,
    LOG_LEVEL: "error",
  };
  const child = spawn(process.execPath, [PROGRAM, "serve"], { env, stdio: "inherit" });
  for (;;) {
    const ready = await fetch(`http://127.0.0.1:${http}/readyz`).catch(() => undefined);
    if (ready?.status === 200) return { child, grpc, http };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function load(seconds) {
  const path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
  const settings = { port: first.grpc, path, message: "spread", keys: LIMITS, rate: RATE, seconds, connections: 4 };
  const { stdout } = await run(process.execPath, [CALLER, JSON.stringify(settings)], { maxBuffer: 1e8 });
  return JSON.parse(stdout);
}

function limits(http, ...args) {
  const env = { ...process.env, ADMIN_TOKEN: TOKEN };
  const running = run(process.execPath, [PROGRAM, "limits", ...args, "-s", `127.0.0.1:${http}`], {
    env,
    maxBuffer: 1e9,
  });
  setPriority(running.child.pid, constants.priority.PRIORITY_LOW);
  return running;
}

progress("calls alone");
const alone = await load(SECONDS_ALONE);
progress("import");
setPriority(second.child.pid, constants.priority.PRIORITY_LOW);
const beganMs = performance.now();
const imported = limits(second.http, "import", file).then(({ stdout }) => ({
  stdout,
  ms: performance.now() - beganMs,
}));
const during = await load(SECONDS_ALONE);
const { stdout, ms } = await imported;
progress("");
const [one, other] = await Promise.all(processes.map(({ http }) => limits(http, "export")));
const isEqual = one.stdout === other.stdout && one.stdout.trim().split("\n").length === LIMITS;
printTable(
  `${LIMITS.toLocaleString("en")} limits imported in ${(ms / 1_000).toFixed(1)} s; ${isEqual ? "both processes have all" : "PROCESSES DIFFER"}`,
  [
    ["alone", alone],
    ["during the import", during],
  ].map(([when, { perSecond, errors, p50Us, p99Us, sentP99Us, ownLateP99Us }]) => ({
    when,
    "calls a second": Math.round(perSecond),
    errors,
    "p50 ms, from due": p50Us / 1_000,
    p99: p99Us / 1_000,
    "p99 from sending": sentP99Us / 1_000,
    "p99 by which they were sent late": ownLateP99Us / 1_000,
  })),
);
console.log(stdout.trim());
for (const { child } of processes) {
  child.kill("SIGTERM");
  await once(child, "exit");
}
await redis.stop();
process.exit(isEqual ? 0 : 1);
