// One address that the supervisor listens on for its workers: takes what connects and passes it on, unread.

import { rm } from "node:fs/promises";
import { createServer, type ListenOptions, type Server, type Socket } from "node:net";

/** Connections that may wait to be accepted; the system may allow fewer. */
const BACKLOG = 1_024;

export class SharedListener {
  readonly #target: ListenOptions;
  readonly #server: Server;
  #port: Promise<number> | undefined;
  #closed: Promise<void> | undefined;

  /** `give` gets each socket; it must see to it that the socket is passed on or destroyed. */
  constructor(target: ListenOptions, give: (socket: Socket) => void) {
    this.#target = target;
    // Paused: what a caller sends is for the worker to read.
    this.#server = createServer({ pauseOnConnect: true }, (socket) => {
      // Whatever a socket fails with is followed by its close, which the worker sees.
      socket.on("error", () => undefined);
      give(socket);
    });
  }

  /** Listens; called again, it resolves to the same port, 0 for a Unix socket. Rejects with what the system says. */
  open(): Promise<number> {
    this.#port ??= new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ ...this.#target, backlog: BACKLOG }, () => {
        this.#server.off("error", reject);
        // Accepting may fail for lack of file descriptors; the next connection tries again.
        this.#server.on("error", () => undefined);
        const address = this.#server.address();
        resolve(address !== null && typeof address === "object" ? address.port : 0);
      });
    });
    return this.#port;
  }

  /** Listens no more; called again, it waits for the same end. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    if (this.#port === undefined) return;
    this.#server.close();
    if (this.#target.path !== undefined) await rm(this.#target.path, { force: true });
  }
}
