// A proxy that serves a service under a path of its own, as an ingress does, and says nothing of itself to the service.

import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

const PREFIX = "/tools/gate/";

/** Resolves to the address of the page behind it. */
export async function startPrefixProxy(port: number): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const server = createServer((incoming, outgoing) => {
    if (incoming.url?.startsWith(PREFIX) !== true) {
      outgoing.writeHead(404).end("not here");
      return;
    }
    const path = incoming.url.slice(PREFIX.length - 1);
    const headers = { ...incoming.headers, host: `localhost:${port}` };
    const onward = request({ host: "127.0.0.1", port, path, method: incoming.method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${PREFIX}`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
