// Pages over HTTP/1.1: finds the page of a path, turns what it throws into an answer, listens and ends in order. What the
// pages are is said by server.ts and debug-server.ts.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { posix } from "node:path";
import { pipeline } from "node:stream/promises";
import { RequestError } from "../core/errors.ts";
import type { SocketSource } from "../core/socket-source.ts";
import { errorCode } from "../core/thrown.ts";
import { visibleJson, visibleLines } from "../core/visible.ts";
import { BodyTooLargeError } from "./body.ts";
import { HeldSockets } from "./held-sockets.ts";

/** A whole HTTP answer. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Long texts come in pieces, which are made as the caller reads them. */
  readonly body: string | Uint8Array | AsyncIterable<string>;
}

/** One path and what it answers. */
export interface Page {
  /** Undefined: any method. */
  readonly methods: readonly string[] | undefined;
  readonly help: string;
  readonly answer: (request: IncomingMessage) => HttpAnswer | Promise<HttpAnswer>;
}

/** Where pages are served. */
export interface PageAddress {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** Where connections come from if another process listens in place of this one. */
  readonly sockets?: SocketSource | undefined;
}

interface PageServerOptions extends PageAddress {
  readonly pages: ReadonlyMap<string, Page>;
  /** Answers paths that are none of the pages. */
  readonly otherPage: (path: string) => HttpAnswer;
  /** Told of faults of ours; must not throw. */
  readonly onError: (error: unknown) => void;
  /** Connections held at once, other than by default for tests. */
  readonly connectionsMax?: number;
}

/** Methods of a page that only shows something. */
export const READ = ["GET", "HEAD"] as const;

const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
/**
 * Connections held at once; a newcomer beyond them gets the place of the one that has been silent longest. Far more than
 * probes, scrapers and callers of /json hold, and some 40 MB of memory at most. Envoy bounds connections in its overload
 * manager, and closes newcomers instead; Node has no bound of its own.
 */
const CONNECTIONS_MAX = 4_096;

/** An HTTP server for pages that have a fixed path each. */
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

  /** Starts to listen; resolves to the port, rejects if that is taken. */
  listen(): Promise<number> {
    const { host, port, sockets } = this.#options;
    if (sockets !== undefined) return this.#enter(sockets);
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, host, () => {
        this.#server.off("error", reject);
        resolve((this.#server.address() as AddressInfo).port);
      });
    });
  }

  #enter(sockets: SocketSource): Promise<number> {
    // Has the server watch its timeouts as if it listened; without this a slow request would be waited for without end.
    this.#server.emit("listening");
    return sockets.open((socket) => {
      // As node:http has it of its own connections: who has sent all may still wait for the answer.
      socket.allowHalfOpen = true;
      this.#server.emit("connection", socket);
    });
  }

  /** Takes no new connections, lets answers under way finish for at most `graceMs`, then cuts them off. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true;
    this.#options.sockets?.close();
    const cutOff = setTimeout(() => this.#server.closeAllConnections(), graceMs);
    this.#server.close();
    this.#server.closeIdleConnections();
    await Promise.all(this.#sockets.all().map((socket) => new Promise((resolve) => socket.once("close", resolve))));
    clearTimeout(cutOff);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A caller that went away while its answer was written is no fault of anybody's.
    response.on("error", () => response.destroy());
    try {
      const answer = await this.#answer(request).catch((error: unknown) => this.#answerTo(error, request));
      if (answer === undefined) return;
      // A connection kept alive would hold up the end of the server.
      await send(response, this.#isClosing ? withHeaders(answer, { connection: "close" }) : answer);
    } catch (error) {
      if (!isHangUp(error)) this.#options.onError(error);
      response.destroy();
    }
  }

  /** The answer to a failed request; undefined if nobody waits for one. */
  #answerTo(error: unknown, request: IncomingMessage): HttpAnswer | undefined {
    if (request.destroyed && !request.complete) return undefined;
    if (error instanceof BodyTooLargeError) return tooLarge(error);
    if (error instanceof RequestError) return text(400, `${error.code}: ${error.message}\n`);
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

// Whoever looks at a page in a terminal is shown names from rule files and from callers.
function shownBody(body: string, type = ""): string {
  if (type.startsWith("application/json")) return visibleJson(body);
  return type.startsWith("text/plain") ? visibleLines(body) : body;
}

/** The answer to a path that has no page. */
export function notFound(): HttpAnswer {
  return text(404, "404 page not found\n");
}

function isHangUp(error: unknown): boolean {
  return errorCode(error) === "ERR_STREAM_PREMATURE_CLOSE";
}

function tooLarge(error: BodyTooLargeError): HttpAnswer {
  return withHeaders(text(413, `REQUEST_TOO_LARGE: ${error.message}\n`), { connection: "close" });
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

/** Sends whoever asks for `//json` or `/x/../json` to the page they mean, as the reference service does. */
function cleanPathOf(path: string): HttpAnswer | undefined {
  const clean = posix.normalize(path);
  if (!path.startsWith("/") || clean === path) return undefined;
  return { status: 301, headers: { location: clean }, body: "" };
}
