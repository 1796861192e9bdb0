// How a worker gets connections: the supervisor listens and hands them over.

import type { Socket } from "node:net";

/** An address on which another process listens for this one. */
export interface SocketSource {
  /**
   * Begins to listen; `take` gets this process's share of the connections, as sockets from which nothing was read yet. Resolves to
   * the port (0 for a Unix socket). Rejects with ConfigError if the other process can't listen on the address.
   */
  open(take: (socket: Socket) => void): Promise<number>;
  /** Ends the hand-over of new sockets. Sockets handed over before stay open. */
  close(): void;
}
