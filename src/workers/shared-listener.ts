// An address that the supervisor listens on for its workers: accepts connections and passes them on unread.

import { rm } from "node:fs/promises";
import { createServer, type ListenOptions, type Server, type Socket } from "node:net";

/** Connections that may wait to be accepted; the system may allow fewer (net.core.somaxconn). */
const BACKLOG = 1_024;

export class SharedListener {
  readonly #target: ListenOptions;
  readonly #server: Server;
  #port: Promise<number> | undefined;
  #closed: Promise<void> | undefined;

  /** `give` gets each socket, and must pass it on or destroy it. */
  constructor(target: ListenOptions, give: (socket: Socket) => void) {
    this.#target = target;
    // Paused, because the worker has to read everything that the caller sends.
    this.#server = createServer({ pauseOnConnect: true }, (socket) => {
      // A failure is followed by the socket's close, and the worker notices that.
      socket.on("error", () => undefined);
      give(socket);
    });
  }

  /** Listens; resolves to the port, or to 0 for a Unix socket. A second call gets the same promise. Rejects with the system's error. */
  open(): Promise<number> {
    this.#port ??= new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ ...this.#target, backlog: BACKLOG }, () => {
        this.#server.off("error", reject);
        // Accepting may fail, as without free file descriptors; the server tries again with the next connection.
        this.#server.on("error", () => undefined);
        const address = this.#server.address();
        resolve(address !== null && typeof address === "object" ? address.port : 0);
      });
    });
    return this.#port;
  }

  /** Stops listening. A second call gets the same promise. */
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
