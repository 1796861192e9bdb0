// Accepts sockets, plain or TLS, and checks that they begin with the preface of HTTP/2. Everything after the preface goes to the
// Connection.

import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { Connection } from "./connection.ts";
import type { Lane } from "./lane.ts";
import { PREFACE } from "./protocol.ts";
import type { TlsSource } from "./tls-source.ts";

const ALPN = ["h2"];
const LOOKS_MS = 1_000;

/** A server that does not listen yet. */
export class Listener {
  readonly server: Server;
  readonly #lane: Lane;
  // Sockets whose preface is not complete.
  readonly #entering = new Set<Entrance>();
  readonly #sockets = new Set<Socket>();
  readonly #look: NodeJS.Timeout;
  #isClosed = false;

  constructor(lane: Lane, tls: TlsSource | undefined) {
    this.#lane = lane;
    this.server = tls === undefined ? this.#plain() : this.#secure(tls);
    this.#look = setInterval(() => this.#lookAround(), LOOKS_MS).unref();
  }

  /** Stops accepting. Connections stay open. */
  close(): void {
    this.#isClosed = true;
    this.server.close();
    for (const entrance of this.#entering) entrance.socket.destroy();
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

  #secure(tls: TlsSource): Server {
    let inForce = tls.current();
    const { handshakeMs } = this.#lane.bounds;
    const server = createTlsServer({ ...inForce, ALPNProtocols: ALPN, handshakeTimeout: handshakeMs, noDelay: true });
    // Runs before the TLS server's own listener, so that this connection gets the certificates in force now.
    server.prependListener("connection", (socket: Socket) => {
      const now = tls.current();
      if (now !== inForce) server.setSecureContext(now);
      inForce = now;
      this.#accept(socket);
    });
    server.on("tlsClientError", (_error, socket) => {
      this.#lane.counts.troubles.tls_failed++;
      socket.destroy();
    });
    server.on("secureConnection", (socket) => {
      socket.on("error", ignore);
      this.#enter(socket, tls.refusalOf(socket));
    });
    return server;
  }

  #accept(socket: Socket): boolean {
    socket.on("error", ignore);
    if (this.#sockets.size >= this.#lane.bounds.connectionsMax) {
      this.#lane.counts.troubles.too_many_connections++;
      socket.destroy();
      return false;
    }
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    return true;
  }

  #enter(socket: Socket, refusal?: string): void {
    // A handshake that began before the listener closed and ends after it: this connection would not be told to go.
    if (this.#isClosed) {
      socket.destroy();
      return;
    }
    const entrance = new Entrance(this.#lane, socket, refusal, () => this.#entering.delete(entrance));
    this.#entering.add(entrance);
  }

  #lookAround(): void {
    const nowUs = this.#lane.nowUs();
    for (const entrance of this.#entering) entrance.look(nowUs);
    for (const connection of this.#lane.connections) connection.look(nowUs, LOOKS_MS / 1_000);
  }
}

/** A socket until its preface is complete; after that it passes bytes to the connection. */
class Entrance {
  readonly socket: Socket;
  readonly #lane: Lane;
  readonly #sinceUs: number;
  readonly #refusal: string | undefined;
  readonly #onDone: () => void;
  #matched = 0;
  #connection: Connection | undefined;

  constructor(lane: Lane, socket: Socket, refusal: string | undefined, onDone: () => void) {
    this.#lane = lane;
    this.socket = socket;
    this.#refusal = refusal;
    this.#onDone = onDone;
    this.#sinceUs = lane.nowUs();
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("close", () => {
      this.#connection?.socketClosed();
      this.#onDone();
    });
  }

  /** Closes the socket if its preface takes too long. */
  look(nowUs: number): void {
    if (nowUs - this.#sinceUs <= this.#lane.bounds.handshakeMs * 1_000) return;
    this.#lane.counts.troubles.handshake_timeout++;
    this.socket.destroy();
  }

  #take(chunk: Buffer): void {
    if (this.#connection !== undefined) this.#connection.read(chunk, 0);
    else this.#match(chunk);
  }

  #match(chunk: Buffer): void {
    if (this.#matched < 0) return;
    let at = 0;
    while (at < chunk.length && this.#matched < PREFACE.length && chunk[at] === PREFACE[this.#matched]) {
      at++;
      this.#matched++;
    }
    if (this.#matched === PREFACE.length && !isForeignTls(this.socket)) {
      this.#onDone();
      this.#connection = new Connection(this.#lane, this.socket, this.#refusal);
      this.#connection.read(chunk, at);
    } else if (at < chunk.length || this.#matched === PREFACE.length) this.#turnAway();
  }

  // One answer that a person with curl can read.
  #turnAway(): void {
    this.#matched = -1;
    this.#lane.counts.troubles.bad_preface++;
    const text = `This port speaks gRPC over HTTP/2. ${this.#lane.options.httpHint}\n`;
    const head = [
      "HTTP/1.1 400 Bad Request",
      "content-type: text/plain",
      `content-length: ${text.length}`,
      "connection: close",
    ];
    this.socket.end(`${head.join("\r\n")}\r\n\r\n${text}`);
  }
}

// A client that offered only other protocols has failed the handshake; one that offered none gets here.
function isForeignTls(socket: Socket): boolean {
  return "alpnProtocol" in socket && socket.alpnProtocol !== "h2";
}

function ignore(): void {
  // Whatever a socket fails with is followed by its close, which is looked at.
}
