// Serves pages over HTTP/1.1: finds the page of a path, turns its errors into answers, listens, and closes in order.
// The pages themselves are in server.ts and debug-server.ts.

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { posix } from "node:path";
import { RequestError, StoreError } from "../../base/errors.ts";
import { Turns } from "../../base/turns.ts";
import { visibleJson, visibleLines } from "../../base/visible.ts";
import { BodyTooLargeError } from "./body.ts";
import { type HeldBounds, HeldSockets } from "./held-sockets.ts";
import { type Exchange, HttpConnection } from "./http-connection.ts";

// An import of node:http would also load the client of WebSockets that it exports: 11 MB and as many milliseconds.
const { createServer } = process.getBuiltinModule("node:http");

/** A whole HTTP answer. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Long texts come in pieces, which are made while the client reads. */
  readonly body: string | Uint8Array | Iterable<string>;
}

/** The answer to requests of one path. */
export interface Page {
  /** Allowed methods; undefined: any. */
  readonly methods: readonly string[] | undefined;
  readonly help: string;
  /**
   * Takes more than a fraction of a millisecond to make: waits until few such pages are being made, and never delays
   * others.
   */
  readonly isLong?: boolean;
  readonly answer: (request: IncomingMessage) => HttpAnswer | Promise<HttpAnswer>;
}

/** Where pages are served. */
export interface PageAddress {
  readonly host: string;
  /** 0 takes a free port. */
  readonly port: number;
}

interface PageServerOptions extends PageAddress {
  readonly pages: ReadonlyMap<string, Page>;
  /** Answers paths that have no page. */
  readonly otherPage: (path: string) => HttpAnswer;
  /** Called for internal errors; must not throw. */
  readonly onError: (error: unknown) => void;
  /** Instead of BOUNDS; set by tests. */
  readonly bounds?: Partial<HeldBounds>;
}

/** Methods of a page that changes nothing. */
export const READ = ["GET", "HEAD"] as const;

const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
/** Envoy's bound. Node drops the headers beyond its own silently, and with them what a proxy adds at the end. */
const HEADERS_MAX = 100;
/**
 * Far more than probes, scrapers and callers of /json hold. Envoy's overload manager bounds connections too, but closes
 * the new ones; Node has no bounds of its own. The requests are 512 of the longest bodies of /json.
 */
const BOUNDS: HeldBounds = { connectionsMax: 4_096, requestBytesMax: 16_777_216, answerBytesMax: 33_554_432 };
/** What an answer in pieces holds of what it is made from, besides the piece that is being sent. */
const PIECES_BYTES = 131_072;
/** Long pages of the process, and pieces of them. */
const LONG_PAGES = new Turns({ turnUs: 2_000, rests: true, underWayMax: 8 });

/** An HTTP server whose pages have fixed paths. */
export class PageServer {
  readonly #options: PageServerOptions;
  readonly #server: Server;
  readonly #sockets: HeldSockets;
  readonly #connections = new WeakMap<Socket, HttpConnection>();
  #isClosing = false;

  constructor(options: PageServerOptions) {
    this.#options = options;
    this.#sockets = new HeldSockets({ ...BOUNDS, ...options.bounds });
    this.#server = createServer(
      {
        headersTimeout: HEADERS_TIMEOUT_MS,
        requestTimeout: REQUEST_TIMEOUT_MS,
        keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
        connectionsCheckingInterval: 5_000,
        // What the socket buffers at most is one read, which is noted when it comes.
        highWaterMark: 1,
      },
      (request, response) => this.#connections.get(request.socket)?.take({ request, response }),
    );
    this.#server.maxHeadersCount = HEADERS_MAX + 1;
    // A client that has ended its side may still wait for the answer.
    Object.assign(this.#server, { httpAllowHalfOpen: true });
    this.#server.on("connection", (socket: Socket) => {
      const serve = (exchange: Exchange, connection: HttpConnection) => void this.#serve(exchange, connection);
      this.#connections.set(socket, new HttpConnection(socket, this.#sockets, serve));
    });
  }

  /** Connections that were closed to stay within the bounds, by what they would have exceeded. */
  get closed(): Readonly<HeldSockets["closed"]> {
    return this.#sockets.closed;
  }

  /** Starts to listen; resolves to the port, rejects if the address can't be listened on. */
  listen(): Promise<number> {
    const { host, port } = this.#options;
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, host, () => {
        this.#server.off("error", reject);
        resolve((this.#server.address() as AddressInfo).port);
      });
    });
  }

  /**
   * Accepts no more connections, lets answers under way finish for at most `graceMs` milliseconds, then cuts them off.
   */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true;
    const cutOff = setTimeout(() => this.#server.closeAllConnections(), graceMs);
    this.#server.close();
    this.#server.closeIdleConnections();
    await Promise.all(this.#sockets.all().map((socket) => new Promise((resolve) => socket.once("close", resolve))));
    clearTimeout(cutOff);
  }

  async #serve({ request, response }: Exchange, connection: HttpConnection): Promise<void> {
    // A client that leaves while its answer is written is nobody's error.
    response.on("error", () => response.destroy());
    try {
      const answer = await this.#answer(request, connection).catch((error: unknown) => this.#answerTo(error, request));
      if (answer === undefined) response.destroy();
      // A connection that is kept alive would delay the end of the server.
      else await send(response, this.#isClosing ? withHeaders(answer, { connection: "close" }) : answer, connection);
    } catch (error) {
      this.#options.onError(error);
      response.destroy();
    }
  }

  /** The answer to a failed request; undefined if the client has left before it sent all. */
  #answerTo(error: unknown, request: IncomingMessage): HttpAnswer | undefined {
    if (request.destroyed && !request.complete) return undefined;
    if (error instanceof BodyTooLargeError)
      return withHeaders(text(413, `REQUEST_TOO_LARGE: ${error.message}\n`), { connection: "close" });
    if (error instanceof RequestError) return text(400, `${error.code}: ${error.message}\n`);
    if (error instanceof StoreError) return text(503, `${error.code}: ${error.message}\n`);
    this.#options.onError(error);
    return text(500, "Internal Server Error\n");
  }

  /** Undefined if the client has left before its turn came. */
  async #answer(request: IncomingMessage, connection: HttpConnection): Promise<HttpAnswer | undefined> {
    if (request.rawHeaders.length > 2 * HEADERS_MAX)
      return withHeaders(text(431, `431 expected at most ${HEADERS_MAX} headers\n`), { connection: "close" });
    const path = request.url?.split("?", 1)[0] ?? "";
    const page = this.#options.pages.get(path);
    if (page === undefined) return cleanPathOf(path) ?? this.#options.otherPage(path);
    const { methods, isLong } = page;
    if (methods !== undefined && !methods.includes(request.method ?? ""))
      return withHeaders(text(405, "405 method not allowed\n"), { allow: methods.join(", ") });
    // A body may come slowly, so pages that read one don't take the place of others.
    if (isLong !== true || !(READ as readonly string[]).includes(request.method ?? "")) return page.answer(request);
    return await LONG_PAGES.run(() => (connection.isGone() ? undefined : page.answer(request)));
  }
}

async function send(response: ServerResponse, answer: HttpAnswer, connection: HttpConnection): Promise<void> {
  if (response.destroyed) return;
  const body = typeof answer.body === "string" ? shownBody(answer.body, answer.headers["content-type"]) : answer.body;
  const headers = { "cache-control": "no-store", "x-content-type-options": "nosniff", ...answer.headers };
  if (typeof body === "string" || body instanceof Uint8Array) {
    response.writeHead(answer.status, { ...headers, "content-length": Buffer.byteLength(body) });
    response.end(body);
    connection.holdAnswer(response.socket?.writableLength ?? 0);
    return;
  }
  response.writeHead(answer.status, headers);
  if (response.req.method !== "HEAD") await sendPieces(response, body, connection);
  response.end();
}

async function sendPieces(response: ServerResponse, body: Iterable<string>, connection: HttpConnection): Promise<void> {
  const isClosed = new Promise<void>((resolve) => response.once("close", resolve));
  const pieces = body[Symbol.iterator]();
  try {
    for (;;) {
      const piece = await LONG_PAGES.run(() => (response.destroyed ? undefined : pieces.next()));
      if (piece === undefined || piece.done === true) return;
      const isSent = new Promise<void>((resolve) => response.write(piece.value, () => resolve()));
      connection.holdAnswer(PIECES_BYTES + (response.socket?.writableLength ?? 0));
      await Promise.race([isSent, isClosed]);
    }
  } finally {
    pieces.return?.();
  }
}

// Names from rule files and from callers may hold control characters, which must not reach a terminal as they are.
function shownBody(body: string, type = ""): string {
  if (type.startsWith("application/json")) return visibleJson(body);
  return type.startsWith("text/plain") ? visibleLines(body) : body;
}

/** The answer to a path that has no page. */
export function notFound(): HttpAnswer {
  return text(404, "404 page not found\n");
}

/** The pages with their help, one a line. */
export function listOf(pages: ReadonlyMap<string, Page>): string {
  const listed = [...pages].filter(([, { help }]) => help !== "");
  return listed.map(([path, { help }]) => `${path.padEnd(14)} ${help}\n`).join("");
}

export function withHeaders(answer: HttpAnswer, headers: Readonly<Record<string, string>>): HttpAnswer {
  return { ...answer, headers: { ...answer.headers, ...headers } };
}

/** An answer in plain text. */
export function text(status: number, body: HttpAnswer["body"]): HttpAnswer {
  return { status, headers: { "content-type": "text/plain; charset=utf-8" }, body };
}

/** An answer in JSON. */
export function json(status: number, value: unknown): HttpAnswer {
  return { status, headers: { "content-type": "application/json" }, body: `${JSON.stringify(value, null, 2)}\n` };
}

/** Redirects `//json` or `/x/../json` to the cleaned path, as envoyproxy/ratelimit does. */
function cleanPathOf(path: string): HttpAnswer | undefined {
  const clean = posix.normalize(path);
  if (!path.startsWith("/") || clean === path) return undefined;
  return { status: 301, headers: { location: clean }, body: "" };
}
