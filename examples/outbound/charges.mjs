// Calls an API that takes ten calls a second: 30 calls begin at once, and each waits for its turn.

import { createLimiter } from "@headgate/client";
import { startFakeApi } from "./fake-api.mjs";

const limiter = createLimiter({
  servers: (process.env.HEADGATE ?? "localhost:8081").split(","),
  // What waits for seconds may wait for a check; without an answer it does not call.
  deadlineMs: 2_000,
  onFailure: "throw",
});
const api = await startFakeApi();

async function charge(id, signal = AbortSignal.timeout(20_000)) {
  await limiter.wait({ domain: "outbound", descriptors: [{ api: "payments" }], maxWaitMs: 10_000 }, { signal });
  const { status } = await fetch(`${api.url}/charges/${id}`, { signal });
  return status;
}

const startedMs = performance.now();
const statuses = await Promise.all(Array.from({ length: 30 }, (_, id) => charge(id)));
const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
console.log(`${statuses.filter((status) => status === 200).length} of ${statuses.length} calls served in ${seconds} s`);

// Its turn would come too late, which it is told at once.
const hurried = { domain: "outbound", descriptors: [{ api: "payments" }], maxWaitMs: 500 };
await limiter.wait(hurried).catch(({ message }) => console.log(message));

api.stop();
limiter.close();
