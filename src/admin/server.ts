// The HTTP port: /json, health, metrics, the rules in force, explain. Knows nothing of limits or stores: what it shows
// and asks comes as functions.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { posix } from "node:path";
import { pipeline } from "node:stream/promises";
import { RequestError } from "../core/errors.ts";
import type { HealthState } from "../core/health.ts";
import { inTurns } from "../telemetry/in-turns.ts";
import { BodyTooLargeError, readBody } from "./body.ts";
import {
  configView,
  type ExplainQuestion,
  limitLines,
  type RulesState,
  readExplainQuestion,
  readinessView,
} from "./views.ts";

/** A whole HTTP answer. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Long texts come in pieces, which are made as the caller reads them. */
  readonly body: string | Uint8Array | AsyncIterable<string>;
}

/** Where the pages get what they show. */
export interface AdminSources {
  /** Decides a request in proto3 JSON. Never rejects for what callers send. */
  readonly answerJson: (body: Buffer) => Promise<HttpAnswer>;
  readonly health: HealthState;
  readonly metricsText: () => AsyncIterable<string>;
  readonly metricsContentType: string;
  readonly rulesState: () => RulesState;
  /** Every setting by name, secrets redacted. */
  readonly settings: Readonly<Record<string, string>>;
  /** A report that goes out as JSON; a RequestError that it throws becomes a 400. */
  readonly explain: (question: ExplainQuestion) => unknown;
  /** Told of faults of ours; must not throw. */
  readonly onError: (error: unknown) => void;
}

export interface AdminOptions {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly metricsPath: string;
  /** Longest body that is read. */
  readonly bodyBytesMax: number;
}

interface Page {
  /** Undefined: any method. */
  readonly methods: readonly string[] | undefined;
  readonly help: string;
  readonly answer: (request: IncomingMessage) => HttpAnswer | Promise<HttpAnswer>;
}

const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_TIMEOUT_MS = 65_000;
/** Connections held at once; more are closed as they come. */
const CONNECTIONS_MAX = 4_096;
/** Longest question to /explain. */
const EXPLAIN_BYTES_MAX = 262_144;
const READ = ["GET", "HEAD"] as const;

/** The HTTP server of one process. */
export class AdminServer {
  readonly #options: AdminOptions;
  readonly #sources: AdminSources;
  readonly #pages: ReadonlyMap<string, Page>;
  readonly #server: Server;
  #isClosing = false;

  constructor(options: AdminOptions, sources: AdminSources) {
    this.#options = options;
    this.#sources = sources;
    this.#pages = this.#makePages();
    this.#server = createServer(
      {
        headersTimeout: HEADERS_TIMEOUT_MS,
        requestTimeout: REQUEST_TIMEOUT_MS,
        keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
        connectionsCheckingInterval: 5_000,
      },
      (request, response) => void this.#serve(request, response),
    );
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  /** Starts to listen; resolves to the port, rejects if that is taken. */
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

  /** Takes no new connections, lets answers under way finish for at most `graceMs`, then cuts them off. */
  close(graceMs: number): Promise<void> {
    this.#isClosing = true;
    return new Promise((resolve) => {
      const cutOff = setTimeout(() => this.#server.closeAllConnections(), graceMs);
      this.#server.close(() => {
        clearTimeout(cutOff);
        resolve();
      });
      this.#server.closeIdleConnections();
    });
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
      if (!isHangUp(error)) this.#sources.onError(error);
      response.destroy();
    }
  }

  /** The answer to a failed request; undefined if nobody waits for one. */
  #answerTo(error: unknown, request: IncomingMessage): HttpAnswer | undefined {
    if (request.destroyed && !request.complete) return undefined;
    if (error instanceof BodyTooLargeError) return tooLarge(error);
    if (error instanceof RequestError) return text(400, `${error.code}: ${error.message}\n`);
    this.#sources.onError(error);
    return text(500, "Internal Server Error\n");
  }

  async #answer(request: IncomingMessage): Promise<HttpAnswer> {
    const path = request.url?.split("?", 1)[0] ?? "";
    const page = this.#pages.get(path);
    if (page === undefined) return cleanPathOf(path) ?? text(404, "404 page not found\n");
    const { methods } = page;
    if (methods === undefined || methods.includes(request.method ?? "")) return page.answer(request);
    return withHeaders(text(405, "405 method not allowed\n"), { allow: methods.join(", ") });
  }

  #makePages(): ReadonlyMap<string, Page> {
    const { answerJson, health, explain, rulesState, settings, metricsText, metricsContentType } = this.#sources;
    const { bodyBytesMax } = this.#options;
    const pages = new Map<string, Page>();
    const add = (path: string, help: string, methods: Page["methods"], answer: Page["answer"]) =>
      pages.set(path, { help, methods, answer });
    add("/", "this list", READ, () => text(200, index(pages)));
    add("/json", "POST a RateLimitRequest as JSON, get a decision", undefined, async (request) =>
      answerJson(await readBody(request, bodyBytesMax)),
    );
    add("/explain", "POST a domain and descriptors, learn which rules match and why", ["POST"], async (request) =>
      json(200, explain(readExplainQuestion(await readBody(request, Math.min(bodyBytesMax, EXPLAIN_BYTES_MAX))))),
    );
    add("/healthcheck", "200 OK or 500", undefined, () =>
      health.isServing() ? text(200, "OK") : { status: 500, headers: {}, body: "" },
    );
    add("/livez", "200 as long as the process works at all", READ, () => text(200, "OK\n"));
    add("/readyz", "200, or 503 with the reasons", READ, () =>
      json(health.isServing() ? 200 : 503, readinessView(health.troubles(), health.notes())),
    );
    add(this.#options.metricsPath, "metrics for Prometheus", READ, () => ({
      status: 200,
      headers: { "content-type": metricsContentType },
      body: metricsText(),
    }));
    add("/config", "rule files, hash, last error, warnings, settings", READ, () =>
      json(200, configView(rulesState(), settings)),
    );
    add("/rlconfig", "one line per limit in force", READ, () => text(200, inTurns(limitLines(rulesState().rules))));
    return pages;
  }
}

function index(pages: ReadonlyMap<string, Page>): string {
  return [...pages].map(([path, page]) => `${path.padEnd(14)} ${page.help}\n`).join("");
}

async function send(response: ServerResponse, answer: HttpAnswer): Promise<void> {
  if (response.destroyed) return;
  const { body } = answer;
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

function isHangUp(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ERR_STREAM_PREMATURE_CLOSE";
}

function tooLarge(error: BodyTooLargeError): HttpAnswer {
  return withHeaders(text(413, `REQUEST_TOO_LARGE: ${error.message}\n`), { connection: "close" });
}

function withHeaders(answer: HttpAnswer, headers: Readonly<Record<string, string>>): HttpAnswer {
  return { ...answer, headers: { ...answer.headers, ...headers } };
}

function text(status: number, body: HttpAnswer["body"]): HttpAnswer {
  return { status, headers: { "content-type": "text/plain; charset=utf-8" }, body };
}

function json(status: number, value: unknown): HttpAnswer {
  return { status, headers: { "content-type": "application/json" }, body: `${JSON.stringify(value, null, 2)}\n` };
}

/** Sends whoever asks for `//json` or `/x/../json` to the page they mean, as the reference service does. */
function cleanPathOf(path: string): HttpAnswer | undefined {
  const clean = posix.normalize(path);
  if (!path.startsWith("/") || clean === path) return undefined;
  return { status: 301, headers: { location: clean }, body: "" };
}
