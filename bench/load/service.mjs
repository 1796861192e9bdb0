// The whole service behind a transport, joined as src/process/app.ts joins it, without its HTTP port: what a call costs from bytes
// to bytes.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/temporary-folder.mjs";
import { loadDist } from "./dist.mjs";
import { rulesText } from "./rules.mjs";

const CONNECT_MS = 5_000;

/**
 * The handler of ShouldRateLimit on the store that `env` sets; store and rules are there when this resolves. `openTracer` makes
 * what its calls are traced by of the parts of the service.
 */
export async function openService(env = {}, rules = "hot", openTracer = () => undefined) {
  const { SystemClock } = await loadDist("base/clock.js");
  const { readSettings } = await loadDist("settings/settings.js");
  const { createLogger } = await loadDist("operate/telemetry/logger.js");
  const { buildAppParts } = await loadDist("process/app/app-parts.js");
  const { RateLimitService } = await loadDist("grpc/rls/service.js");
  const rulesDir = temporaryFolder();
  writeFileSync(join(rulesDir, "rules.yaml"), rulesText(rules));
  const clock = new SystemClock();
  const settings = readSettings({ RULES_DIR: rulesDir, ...env });
  const logger = createLogger({ level: "warn", format: "json", clock, secrets: [] });
  const parts = await buildAppParts({
    settings,
    clock,
    logger,
    version: "bench",
  });
  await parts.reloader.start();
  await connected(parts.storeHealth);
  if (env.BENCH_RELOAD_MS !== undefined) reloadEvery(Number(env.BENCH_RELOAD_MS), parts.reloader, rulesDir, rules);
  const { limitHeader, remainingHeader, resetHeader } = settings;
  return new RateLimitService({
    limiter: parts.limiter,
    headers: { dialects: [], limitHeader, remainingHeader, resetHeader },
    metadata: "notable",
    onInternalError: (error) => console.error(error),
    onRequestError: (error) => console.error(error),
    tracer: await openTracer(parts),
  });
}

// Text that differs is a new rule set, whatever it means.
function reloadEvery(ms, reloader, folder, rules) {
  let count = 0;
  setInterval(() => {
    writeFileSync(join(folder, "rules.yaml"), `${rulesText(rules)}# ${count++}\n`);
    void reloader.reload();
  }, ms);
}

async function connected(storeHealth) {
  const end = performance.now() + CONNECT_MS;
  while (storeHealth.trouble() !== undefined) {
    if (performance.now() > end) throw new Error(`the store did not connect: ${storeHealth.trouble()}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
