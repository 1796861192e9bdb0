// The HTTP port: /json, health, metrics, the rules in force, explain. Knows nothing of limits or stores: what it shows
// and asks comes as functions.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { RequestError } from "../core/errors.ts";
import type { HealthState } from "../core/health.ts";
import { BodyTooLargeError, readBody } from "./body.ts";
import {
  configView,
  type ExplainQuestion,
  limitsText,
  type RulesState,
  readExplainQuestion,
  readinessView,
} from "./views.ts";

/** A whole HTTP answer. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** Where the pages get what they show. */
export interface AdminSources {
  /** Decides a request in proto3 JSON. Never rejects for what callers send. */
  readonly answerJson: (body: Buffer) => Promise<HttpAnswer>;
  readonly health: HealthState;
  readonly metricsText: () => Promise<string>;
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
      const answer = await this.#answer(request);
      // A connection kept alive would hold up the end of the server.
      send(response, this.#isClosing ? withHeaders(answer, { connection: "close" }) : answer);
    } catch (error) {
      if (request.destroyed && !request.complete) return;
      if (error instanceof BodyTooLargeError) send(response, tooLarge(error));
      else if (error instanceof RequestError) send(response, text(400, `${error.code}: ${error.message}\n`));
      else {
        this.#sources.onError(error);
        send(response, text(500, "Internal Server Error\n"));
      }
    }
  }

  async #answer(request: IncomingMessage): Promise<HttpAnswer> {
    const path = request.url?.split("?", 1)[0] ?? "";
    const page = this.#pages.get(path);
    if (page === undefined) return text(404, "404 page not found\n");
    const { methods } = page;
    if (methods === undefined || methods.includes(request.method ?? "")) return page.answer(request);
    return withHeaders(text(405, "405 method not allowed\n"), { allow: methods.join(", ") });
  }

  #makePages(): ReadonlyMap<string, Page> {
    const { answerJson, health, explain, rulesState, settings, metricsText, metricsContentType } = this.#sources;
    const body = (request: IncomingMessage) => readBody(request, this.#options.bodyBytesMax);
    const pages = new Map<string, Page>();
    const add = (path: string, help: string, methods: Page["methods"], answer: Page["answer"]) =>
      pages.set(path, { help, methods, answer });
    add("/", "this list", READ, () => text(200, index(pages)));
    add("/json", "POST a RateLimitRequest as JSON, get a decision", undefined, async (request) =>
      answerJson(await body(request)),
    );
    add("/explain", "POST a domain and descriptors, learn which rules match and why", ["POST"], async (request) =>
      json(200, explain(readExplainQuestion(await body(request)))),
    );
    add("/healthcheck", "200 OK or 500", undefined, () =>
      health.isServing() ? text(200, "OK") : { status: 500, headers: {}, body: "" },
    );
    add("/livez", "200 as long as the process works at all", READ, () => text(200, "OK\n"));
    add("/readyz", "200, or 503 with the reasons", READ, () =>
      json(health.isServing() ? 200 : 503, readinessView(health.troubles(), health.notes())),
    );
    add(this.#options.metricsPath, "metrics for Prometheus", READ, async () => ({
      status: 200,
      headers: { "content-type": metricsContentType },
      body: await metricsText(),
    }));
    add("/config", "rule files, hash, last error, warnings, settings", READ, () =>
      json(200, configView(rulesState(), settings)),
    );
    add("/rlconfig", "one line per limit in force", READ, () => text(200, limitsText(rulesState().rules)));
    return pages;
  }
}

function index(pages: ReadonlyMap<string, Page>): string {
  return [...pages].map(([path, page]) => `${path.padEnd(14)} ${page.help}\n`).join("");
}

function send(response: ServerResponse, answer: HttpAnswer): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const body = typeof answer.body === "string" ? Buffer.from(answer.body) : answer.body;
  response.writeHead(answer.status, {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    ...answer.headers,
    "content-length": body.byteLength,
  });
  response.end(body);
}

function tooLarge(error: BodyTooLargeError): HttpAnswer {
  return withHeaders(text(413, `REQUEST_TOO_LARGE: ${error.message}\n`), { connection: "close" });
}

function withHeaders(answer: HttpAnswer, headers: Readonly<Record<string, string>>): HttpAnswer {
  return { ...answer, headers: { ...answer.headers, ...headers } };
}

function text(status: number, body: string): HttpAnswer {
  return { status, headers: { "content-type": "text/plain; charset=utf-8" }, body };
}

function json(status: number, value: unknown): HttpAnswer {
  return { status, headers: { "content-type": "application/json" }, body: `${JSON.stringify(value, null, 2)}\n` };
}
