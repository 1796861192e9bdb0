// How a worker gets connections: the main thread listens and hands them over.

import type { Socket } from "node:net";

/** An address on which the main thread listens for this one. */
export interface SocketSource {
  /**
   * Begins to take connections; `take` gets this thread's share of them, as sockets from which nothing was read yet. Resolves to the port,
   * once the main thread listens on it.
   */
  open(take: (socket: Socket) => void): Promise<number>;
  /** Ends the hand-over of new sockets. Sockets handed over before stay open. */
  close(): void;
}
