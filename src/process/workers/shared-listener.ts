// An address that the supervisor listens on for its workers: accepts connections and passes them on unread.

import { createServer, type ListenOptions, type Server, type Socket } from "node:net";
import { removeAbandonedSocket } from "../../grpc/transport/unix-socket.ts";

/** Connections that may wait to be accepted; the system may allow fewer (net.core.somaxconn). */
const BACKLOG = 1_024;

export class SharedListener {
  readonly #target: ListenOptions;
  readonly #server: Server;
  #port: Promise<number> | undefined;

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
    this.#port ??= this.#open();
    return this.#port;
  }

  async #open(): Promise<number> {
    if (this.#target.path !== undefined) await removeAbandonedSocket(this.#target.path);
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ ...this.#target, backlog: BACKLOG }, () => {
        this.#server.off("error", reject);
        // Accepting may fail, as without free file descriptors; the server tries again with the next connection.
        this.#server.on("error", () => undefined);
        const address = this.#server.address();
        resolve(address !== null && typeof address === "object" ? address.port : 0);
      });
    });
  }

  /** Stops listening, which removes the file of a Unix socket; the file of another process, which was in the way, stays. */
  close(): void {
    this.#server.close();
  }
}
