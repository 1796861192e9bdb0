// A port of the loopback that nobody listens on.

import { once } from "node:events";
import { createServer } from "node:net";

/** Found by listening and leaving: somebody else may take it in the moment between. */
export async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}
