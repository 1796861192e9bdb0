// Serves pages over HTTP/1.1: finds the page of a path, turns its errors into answers, listens, and closes in order. The pages
// themselves are in server.ts and debug-server.ts.

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { posix } from "node:path";
import { pipeline } from "node:stream/promises";
import { RequestError, StoreError } from "../../engine/base/errors.ts";
import { errorCode } from "../../engine/base/thrown.ts";
import { visibleJson, visibleLines } from "../../engine/base/visible.ts";
import { BodyTooLargeError } from "./body.ts";
import { HeldSockets } from "./held-sockets.ts";

// An import of node:http would also load the client of WebSockets that it exports: 11 MB and as many milliseconds.
const { createServer } = process.getBuiltinModule("node:http");

/** A whole HTTP answer. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Long texts come in pieces, which are made while the client reads; none before, so that a body which nobody reads needs no end. */
  readonly body: string | Uint8Array | AsyncIterable<string>;
}

/** The answer to requests of one path. */
export interface Page {
  /** Allowed methods; undefined: any. */
  readonly methods: readonly string[] | undefined;
  readonly help: string;
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
  /** Connections held at once; CONNECTIONS_MAX by default. Set by tests. */
  readonly connectionsMax?: number;
}

/** Methods of a page that changes nothing. */
export const READ = ["GET", "HEAD"] as const;

const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
/**
 * Connections held at once; a new one beyond them replaces the one that has been silent longest. Far more than probes, scrapers and
 * callers of /json hold; they take 40 MB of memory at most. Envoy's overload manager bounds connections too, but closes the new
 * ones; Node has no bound of its own.
 */
const CONNECTIONS_MAX = 4_096;

/** An HTTP server whose pages have fixed paths. */
export class PageServer {
  readonly #options: PageServerOptions;
  readonly #server: Server;
  readonly #sockets: HeldSockets;
  #isClosing = false;

  constructor(options: PageServerOptions) {
    this.#options = options;
    this.#sockets = new HeldSockets(options.connectionsMax ?? CONNECTIONS_MAX);
    this.#server = createServer(
      {
        headersTimeout: HEADERS_TIMEOUT_MS,
        requestTimeout: REQUEST_TIMEOUT_MS,
        keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
        connectionsCheckingInterval: 5_000,
      },
      (request, response) => {
        const { socket } = request;
        this.#sockets.note(socket, true);
        response.once("close", () => this.#sockets.note(socket, false));
        void this.#serve(request, response);
      },
    );
    this.#server.on("connection", (socket: Socket) => this.#sockets.add(socket));
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

  /** Accepts no more connections, lets answers under way finish for at most `graceMs` milliseconds, then cuts them off. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true;
    const cutOff = setTimeout(() => this.#server.closeAllConnections(), graceMs);
    this.#server.close();
    this.#server.closeIdleConnections();
    await Promise.all(this.#sockets.all().map((socket) => new Promise((resolve) => socket.once("close", resolve))));
    clearTimeout(cutOff);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A client that leaves while its answer is written is nobody's error.
    response.on("error", () => response.destroy());
    try {
      const answer = await this.#answer(request).catch((error: unknown) => this.#answerTo(error, request));
      if (answer === undefined) return;
      // A connection that is kept alive would delay the end of the server.
      await send(response, this.#isClosing ? withHeaders(answer, { connection: "close" }) : answer);
    } catch (error) {
      const isHangUp = errorCode(error) === "ERR_STREAM_PREMATURE_CLOSE";
      if (!isHangUp) this.#options.onError(error);
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

  async #answer(request: IncomingMessage): Promise<HttpAnswer> {
    const path = request.url?.split("?", 1)[0] ?? "";
    const page = this.#options.pages.get(path);
    if (page === undefined) return cleanPathOf(path) ?? this.#options.otherPage(path);
    const { methods } = page;
    if (methods === undefined || methods.includes(request.method ?? "")) return page.answer(request);
    return withHeaders(text(405, "405 method not allowed\n"), { allow: methods.join(", ") });
  }
}

async function send(response: ServerResponse, answer: HttpAnswer): Promise<void> {
  if (response.destroyed) return;
  const body = typeof answer.body === "string" ? shownBody(answer.body, answer.headers["content-type"]) : answer.body;
  const headers = { "cache-control": "no-store", "x-content-type-options": "nosniff", ...answer.headers };
  if (typeof body === "string" || body instanceof Uint8Array) {
    response.writeHead(answer.status, { ...headers, "content-length": Buffer.byteLength(body) });
    response.end(body);
    return;
  }
  response.writeHead(answer.status, headers);
  if (response.req.method === "HEAD") response.end();
  else await pipeline(body, response);
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
