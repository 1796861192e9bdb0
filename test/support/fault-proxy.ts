// Stands between a client and a server and does to their bytes what networks do: holds them back, cuts the connection.

import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/** A TCP proxy to one port of this machine. */
export class FaultProxy {
  readonly #server: Server;
  readonly #pairs = new Set<{ readonly client: Socket; readonly upstream: Socket }>();
  #held: (() => void)[] | undefined;
  #bytesUntilCut = Number.POSITIVE_INFINITY;

  private constructor(targetPort: number) {
    this.#server = createServer((client) => this.#join(client, connect(targetPort, "127.0.0.1")));
  }

  /** Listens on a free port and passes everything on until told otherwise. */
  static async start(targetPort: number): Promise<FaultProxy> {
    const proxy = new FaultProxy(targetPort);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("the proxy does not listen");
    return address.port;
  }

  /** Keeps what the server sends until `release`. */
  hold(): void {
    this.#held ??= [];
  }

  /** Passes on what was held, and again what comes. */
  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const pass of held) pass();
  }

  /** Passes that many more bytes of the server on, then cuts the connection they came through. Once. */
  cutAfter(bytes: number): void {
    this.#bytesUntilCut = bytes;
  }

  /** Cuts all connections now. */
  cutAll(): void {
    for (const { client, upstream } of this.#pairs) {
      client.destroy();
      upstream.destroy();
    }
  }

  async stop(): Promise<void> {
    this.cutAll();
    this.#server.close();
    await once(this.#server, "close");
  }

  #join(client: Socket, upstream: Socket): void {
    const pair = { client, upstream };
    this.#pairs.add(pair);
    client.setNoDelay(true);
    upstream.setNoDelay(true);
    client.on("data", (data) => upstream.write(data));
    upstream.on("data", (data) => this.#pass(data, client, upstream));
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      // A cut connection shows as an error or as a close; both end the pair.
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        other.destroy();
        this.#pairs.delete(pair);
      });
    }
  }

  #pass(data: Buffer, client: Socket, upstream: Socket): void {
    if (this.#held !== undefined) {
      this.#held.push(() => client.write(data));
      return;
    }
    if (data.length < this.#bytesUntilCut) {
      this.#bytesUntilCut -= data.length;
      client.write(data);
      return;
    }
    client.write(data.subarray(0, this.#bytesUntilCut), () => {
      client.destroy();
      upstream.destroy();
    });
    this.#bytesUntilCut = Number.POSITIVE_INFINITY;
  }
}
