// Servers of a test's own, on free ports of the loopback.

import { once } from "node:events";
import type { AddressInfo, Server, Socket } from "node:net";
import { endWithTest } from "./ends.ts";

/** Has it listen until the test ends, with its connections. Resolves to the port. */
export async function listen(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  endWithTest(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as AddressInfo).port;
}
