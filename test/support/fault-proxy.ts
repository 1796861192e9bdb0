// Stands between a client and a server and does to their bytes what networks do: delays them, lets them drip, loses them,
// cuts and resets connections, leaves one side believing in a connection that the other has lost. Knows no protocol.

import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { endWithTest } from "./ends.ts";
import { seeded } from "./fault-schedule.ts";
import { runSeed } from "./run-seed.ts";

/** What is wrong with the network for as long as a fault lasts. */
export type NetworkFault =
  /** Everything takes `ms` longer, each piece up to `jitterMs` more, in order. */
  | { readonly kind: "delay"; readonly ms: number; readonly jitterMs: number }
  /** Bytes pass a few at a time: `bytes` every `everyMs`. */
  | { readonly kind: "slow drip"; readonly bytes: number; readonly everyMs: number }
  /** Nothing passes and nothing is closed, new connections included; what was sent arrives when it is over. */
  | { readonly kind: "black hole" }
  /** The server's side of all connections is gone; the client's stays open and silent, also afterwards. New ones are fine. */
  | { readonly kind: "half-open" }
  /** All connections are closed as the fault begins. */
  | { readonly kind: "cut" }
  /** The same by a reset, and new connections too, until it is over. */
  | { readonly kind: "reset" }
  /** Replies are kept for `ms`, then the connections get theirs one after the other, the youngest first. */
  | { readonly kind: "reorder"; readonly ms: number };

/** Numbers from 0 to 1; schedules pass a seeded one. */
export type Random = () => number;

/** A TCP proxy to one port of this machine. */
export class FaultProxy {
  readonly #server: Server;
  readonly #random: Random;
  readonly #pairs = new Set<Pair>();
  #targetPort: number;
  #fault: NetworkFault | undefined;
  #holdsReplies = false;
  #bytesUntilCut = Number.POSITIVE_INFINITY;
  #reorder: NodeJS.Timeout | undefined;

  private constructor(targetPort: number, random: Random) {
    this.#targetPort = targetPort;
    this.#random = random;
    this.#server = createServer((client) => this.#join(client));
  }

  /** Listens on a free port and passes everything on until told otherwise. */
  static async start(targetPort: number, random: Random = seeded(runSeed())): Promise<FaultProxy> {
    const proxy = new FaultProxy(targetPort, random);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    endWithTest(() => proxy.stop());
    return proxy;
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("the proxy does not listen");
    return address.port;
  }

  /** Leads new connections to another port: a server that was started again. */
  retarget(port: number): void {
    this.#targetPort = port;
  }

  /** Begins a fault; one that is on ends. */
  begin(fault: NetworkFault): void {
    this.end();
    this.#fault = fault;
    if (fault.kind === "cut") this.cutAll();
    if (fault.kind === "reset") for (const pair of this.#pairs) pair.reset();
    if (fault.kind === "half-open") for (const pair of this.#pairs) pair.loseServer();
    if (fault.kind === "reorder") this.#reorder = setInterval(() => this.#releaseYoungestFirst(), fault.ms);
  }

  /** Ends the fault: what was kept back arrives. */
  end(): void {
    clearInterval(this.#reorder);
    this.#reorder = undefined;
    this.#fault = undefined;
    for (const pair of this.#pairs) pair.passAll();
  }

  /** Keeps what the server sends until `release`. */
  hold(): void {
    this.#holdsReplies = true;
  }

  /** Passes on what was held, and again what comes. */
  release(): void {
    this.#holdsReplies = false;
    for (const pair of this.#pairs) pair.replies.passAll();
  }

  /** Passes that many more bytes of the server on, then cuts the connection they came through. Once. */
  cutAfter(bytes: number): void {
    this.#bytesUntilCut = bytes;
  }

  /** Cuts all connections now. */
  cutAll(): void {
    for (const pair of this.#pairs) pair.cut();
  }

  async stop(): Promise<void> {
    this.end();
    this.cutAll();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, "close");
  }

  #join(client: Socket): void {
    if (this.#fault?.kind === "reset") {
      client.resetAndDestroy();
      return;
    }
    const upstream = connect(this.#targetPort, "127.0.0.1");
    client.setNoDelay(true);
    upstream.setNoDelay(true);
    const pair = new Pair(client, upstream, () => this.#pairs.delete(pair));
    this.#pairs.add(pair);
    client.on("data", (data) => this.#pass(pair.requests, data, false));
    upstream.on("data", (data) => this.#passReply(pair, data));
  }

  #passReply(pair: Pair, data: Buffer): void {
    if (data.length < this.#bytesUntilCut) {
      this.#bytesUntilCut -= data.length;
      this.#pass(pair.replies, data, this.#holdsReplies || this.#fault?.kind === "reorder");
      return;
    }
    pair.client.write(data.subarray(0, this.#bytesUntilCut), () => pair.cut());
    this.#bytesUntilCut = Number.POSITIVE_INFINITY;
  }

  #pass(pipe: Pipe, data: Buffer, isHeld: boolean): void {
    const fault = this.#fault;
    if (isHeld || fault?.kind === "black hole") pipe.keep(data);
    else if (fault?.kind === "delay") pipe.delay(data, fault.ms + this.#random() * fault.jitterMs);
    else if (fault?.kind === "slow drip") pipe.drip(data, fault.bytes, fault.everyMs);
    else pipe.delay(data, 0);
  }

  #releaseYoungestFirst(): void {
    for (const pair of [...this.#pairs].reverse()) pair.replies.passAll();
  }
}

/** The two halves of one connection. */
class Pair {
  readonly client: Socket;
  readonly requests: Pipe;
  readonly replies: Pipe;
  readonly #upstream: Socket;
  #isServerLost = false;

  constructor(client: Socket, upstream: Socket, onClose: () => void) {
    this.client = client;
    this.#upstream = upstream;
    this.requests = new Pipe(upstream);
    this.replies = new Pipe(client);
    // A cut connection shows as an error or as a close; both end the pair.
    client.on("error", () => upstream.destroy());
    client.on("close", () => {
      upstream.destroy();
      this.requests.drop();
      this.replies.drop();
      onClose();
    });
    upstream.on("error", () => this.#closeClient());
    upstream.on("close", () => this.#closeClient());
  }

  cut(): void {
    this.client.destroy();
    this.#upstream.destroy();
  }

  reset(): void {
    this.client.resetAndDestroy();
    this.#upstream.resetAndDestroy();
  }

  /** Ends the server's side without the client being told. */
  loseServer(): void {
    this.#isServerLost = true;
    this.#upstream.destroy();
    this.requests.drop();
    this.replies.drop();
  }

  passAll(): void {
    this.requests.passAll();
    this.replies.passAll();
  }

  #closeClient(): void {
    if (!this.#isServerLost) this.client.destroy();
  }
}

interface Piece {
  readonly data: Buffer;
  /** When it goes on; Infinity until somebody lets it. */
  dueMs: number;
}

/** One direction: bytes leave in the order in which they came, each when it is due. */
class Pipe {
  readonly #to: Socket;
  #pieces: Piece[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(to: Socket) {
    this.#to = to;
  }

  /** Passes the data on after `ms`, but after all that came before. */
  delay(data: Buffer, ms: number): void {
    this.#push(data, performance.now() + ms);
  }

  /** Passes it on in small pieces. */
  drip(data: Buffer, bytes: number, everyMs: number): void {
    for (let i = 0; i < data.length; i += bytes) {
      const lastMs = this.#pieces.at(-1)?.dueMs ?? performance.now();
      this.#push(data.subarray(i, i + bytes), lastMs + everyMs);
    }
  }

  /** Keeps it until `passAll`. */
  keep(data: Buffer): void {
    this.#push(data, Number.POSITIVE_INFINITY);
  }

  passAll(): void {
    for (const piece of this.#pieces) piece.dueMs = 0;
    this.#run();
  }

  drop(): void {
    clearTimeout(this.#timer);
    this.#pieces = [];
  }

  #push(data: Buffer, dueMs: number): void {
    if (this.#to.destroyed) return;
    this.#pieces.push({ data, dueMs: Math.max(dueMs, this.#pieces.at(-1)?.dueMs ?? 0) });
    if (this.#pieces.length === 1) this.#run();
  }

  #run(): void {
    clearTimeout(this.#timer);
    const nowMs = performance.now();
    while (this.#pieces[0] !== undefined && this.#pieces[0].dueMs <= nowMs) {
      const piece = this.#pieces.shift();
      if (piece !== undefined && !this.#to.destroyed) this.#to.write(piece.data);
    }
    const next = this.#pieces[0];
    if (next === undefined || next.dueMs === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(() => this.#run(), next.dueMs - nowMs);
  }
}
