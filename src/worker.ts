// Entry of a worker's thread (WORKERS): the whole service, until the main thread says stop. An error at its start is thrown and ends the
// thread; the main thread logs it.

import "./process/quick-start.ts";
import { parentPort, workerData } from "node:worker_threads";
import { SystemClock } from "./engine/base/clock.ts";
import { invariant } from "./engine/base/invariant.ts";
import { SharedCounts } from "./engine/base/shared-counts.ts";
import { useHashKey } from "./engine/domain/key-bytes.ts";
import { startApp } from "./process/app.ts";
import { openLog } from "./process/open-log.ts";
import { deleteSecrets, readSettings } from "./process/settings.ts";
import type { WorkerData } from "./process/workers/messages.ts";
import { WorkerLink } from "./process/workers/worker-link.ts";

invariant(parentPort !== null, "this file runs as a thread of main.ts");
const data = workerData as WorkerData;
const settings = readSettings(process.env);
deleteSecrets();
if (data.memory !== undefined) useHashKey(Buffer.from(data.memory.hashKey));
const clock = new SystemClock();
const logger = openLog(settings, clock, data.number);

let reload: (() => void) | undefined;
let mustReload = false;
let stop: (delays: boolean) => void = () => undefined;
const asked = new Promise<boolean>((resolve) => {
  stop = resolve;
});
const counts = new SharedCounts(data.counts, data.number - 1);
const link = new WorkerLink(parentPort, data, {
  reload() {
    mustReload = true;
    reload?.();
  },
  stop: (delays) => stop(delays),
});
const { version, memory, runtime } = data;
const app = await startApp({ settings, clock, logger, version, memory, runtime, counts, link });
reload = () => void app.reload();
if (mustReload) reload();
await app.stop({ delays: await asked });
// At once, although OpenTelemetry's exporter may still retry.
process.exit(0);
