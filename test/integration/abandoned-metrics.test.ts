// Clients that ask for metrics and leave: whatever makes the page is told to stop, whenever they leave.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, test, vi } from "vitest";
import { openMetricsServer } from "../../src/operate/http/server.ts";

/** Only for a page that never ends. */
const END_MS = 20_000;
const PIECE = "x".repeat(1_000_000);

/** A server whose page waits for `begin`, has as many pieces as are read, and says when it has ended. */
async function serve() {
  let begin: () => void = () => undefined;
  const mayBegin = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const page = { asked: 0, ended: 0 };
  const server = openMetricsServer({ host: "127.0.0.1", port: 0 }, "/metrics", {
    async *metricsText() {
      page.asked++;
      try {
        await mayBegin;
        for (;;) yield PIECE;
      } finally {
        page.ended++;
      }
    },
    onError: (error) => {
      throw error;
    },
  });
  const port = await server.listen();
  return { port, page, begin, close: () => server.close(0) };
}

async function ask(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.write("GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n");
  await once(socket, "connect");
  return socket;
}

// Promise(turns): A client that asks for metrics and leaves costs nothing that lasts.
test("before the first piece is there", async () => {
  const { port, page, begin, close } = await serve();
  const sockets = await Promise.all(Array.from({ length: 5 }, () => ask(port)));
  await vi.waitFor(() => expect(page.asked).toBe(5), END_MS);
  for (const socket of sockets) socket.destroy();
  await close(); // and so the server has noticed that they left
  begin();
  await vi.waitFor(() => expect(page.ended).toBe(5), END_MS);
});
