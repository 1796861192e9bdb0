// An API that takes ten calls a second and answers the others 429. It forgives 100 ms, because calls are under way for different times.

import { createServer } from "node:http";

const CALLS_MAX = 10;
const WINDOW_MS = 900;

/** Starts it on a free port of the loopback. */
export async function startFakeApi() {
  let servedAtMs = [];
  const server = createServer((_request, response) => {
    const nowMs = performance.now();
    servedAtMs = servedAtMs.filter((atMs) => atMs > nowMs - WINDOW_MS);
    response.statusCode = servedAtMs.length < CALLS_MAX ? 200 : 429;
    if (response.statusCode === 200) servedAtMs.push(nowMs);
    response.end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    stop: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
