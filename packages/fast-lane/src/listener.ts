// Accepts sockets, plain or TLS.

import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { AcceptedSocket } from "./accepted-socket.ts";
import { UnaryCalls } from "./grpc-call.ts";
import type { Http2Server } from "./http2-server.ts";
import type { Certificates } from "./server-options.ts";

const ALPN = ["h2"];
const LOOKS_MS = 1_000;

/** A server that does not listen yet. */
export class Listener {
  readonly server: Server;
  /** The sockets that may speak HTTP/2: under TLS those whose handshake has ended. */
  readonly accepted = new Set<AcceptedSocket>();
  readonly #http2: Http2Server;
  readonly #calls: UnaryCalls;
  readonly #sockets = new Set<Socket>();
  readonly #look: NodeJS.Timeout;
  #isClosed = false;

  constructor(http2: Http2Server, tls: Certificates | undefined) {
    this.#http2 = http2;
    this.#calls = new UnaryCalls(http2);
    this.server = tls === undefined ? this.#plain() : this.#secure(tls);
    this.#look = setInterval(() => {
      const nowUs = http2.nowUs();
      for (const each of this.accepted) each.look(nowUs, LOOKS_MS / 1_000);
    }, LOOKS_MS).unref();
  }

  /** Stops accepting. Connections stay open. */
  close(): void {
    this.#isClosed = true;
    this.server.close();
    for (const { connection, socket } of this.accepted) if (connection === undefined) socket.destroy();
  }

  /** Closes every connection at once. */
  destroy(): void {
    clearInterval(this.#look);
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Resolves when the last connection has closed. */
  async emptied(): Promise<void> {
    await Promise.all([...this.#sockets].map((socket) => new Promise((resolve) => socket.once("close", resolve))));
  }

  #plain(): Server {
    return createServer({ noDelay: true }, (socket) => {
      if (this.#accept(socket)) this.#enter(socket);
    });
  }

  #secure(tls: Certificates): Server {
    const { handshakeMs } = this.#http2.bounds;
    const server = createTlsServer({
      ALPNProtocols: ALPN,
      handshakeTimeout: handshakeMs,
      noDelay: true,
      ...tls.options,
    });
    tls.subscribe?.((options) => server.setSecureContext(options));
    // Runs before the TLS server's own listener: a refused socket begins no handshake.
    server.prependListener("connection", (socket: Socket) => this.#accept(socket));
    server.on("tlsClientError", (_error, socket) => {
      this.#http2.counts.troubles.tls_failed++;
      socket.destroy();
    });
    server.on("secureConnection", (socket) => {
      socket.on("error", ignore);
      this.#enter(socket, tls.refusalOf?.(socket.getPeerCertificate().raw));
    });
    return server;
  }

  #accept(socket: Socket): boolean {
    socket.on("error", ignore);
    if (this.#sockets.size >= this.#http2.bounds.connectionsMax) {
      this.#http2.counts.troubles.too_many_connections++;
      socket.destroy();
      return false;
    }
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    return true;
  }

  #enter(socket: Socket, refusal?: string): void {
    // A handshake that began before the listener closed and ends after it: this connection would get no GOAWAY.
    if (this.#isClosed) {
      socket.destroy();
      return;
    }
    const accepted = new AcceptedSocket(this.#http2, this.#calls, socket, refusal);
    this.accepted.add(accepted);
    socket.on("close", () => this.accepted.delete(accepted));
  }
}

function ignore(): void {
  // A close follows each error of a socket, and is handled.
}
