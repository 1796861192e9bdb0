// How connections come to a process that does not listen by itself: another process listens and hands them over.

import type { Socket } from "node:net";

/** An address that another process listens on for this one. */
export interface SocketSource {
  /**
   * From now on `take` gets its share of what connects: sockets from which nothing was read yet. Resolves to the port
   * (0 for a Unix socket); rejects with ConfigError if the address can't be listened on.
   */
  open(take: (socket: Socket) => void): Promise<number>;
  /** Gets no more sockets; those that it got go on. */
  close(): void;
}
