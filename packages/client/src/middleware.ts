// A limiter in front of HTTP handlers of Express, Fastify and node:http. Their types are described by the few members
// that are used.

import type { CheckDecision } from "./decision.ts";
import { CheckFailure } from "./failure.ts";
import type { Limiter } from "./limiter.ts";
import type { CheckRequest } from "./request.ts";

// The returned functions have NoInfer on the request's type: inferred from a framework's union of handlers, it would
// become `never`.

/** What to ask about a request; undefined lets the request pass without a check. */
export type Describe<Request> = (request: Request) => CheckRequest | undefined;

/** The members of node:http's request that most descriptions need. For others, name another type in `describe`. */
export interface RequestLike {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** The members of Express's and Fastify's requests that most descriptions need. */
export interface RoutedRequestLike extends RequestLike {
  /** The caller's address. Behind a proxy it is the proxy's, unless the framework is told which proxies to trust. */
  readonly ip?: string | undefined;
  readonly method: string;
  readonly url: string;
}

/** The members of node:http's ServerResponse, and so of Express's, that are used. */
export interface ResponseLike {
  statusCode: number;
  /** True when the headers have been sent; then nothing is written. */
  readonly headersSent?: boolean;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
}

/** The members of Fastify's reply that are used. */
export interface ReplyLike {
  /** True when the request has been answered. */
  readonly sent?: boolean;
  code(status: number): unknown;
  header(name: string, value: string): unknown;
  send(body: string): unknown;
}

/**
 * For node:http. Resolves to true if the request may go on, and to false if it has been answered, here or meanwhile by
 * other code. Never rejects, because an unhandled rejection would end the process: if `describe` throws, the answer is
 * 500 and the first such error becomes a process warning; if a check fails under `onFailure: "throw"`, the answer is
 * 503.
 */
export function httpLimit<Request = RequestLike>(limiter: Pick<Limiter, "check">, describe: Describe<Request>) {
  let hasWarned = false;
  return async (request: NoInfer<Request>, response: ResponseLike): Promise<boolean> => {
    try {
      return await limitHttp(limiter, describe, request, response);
    } catch (error) {
      if (!(error instanceof CheckFailure) && !hasWarned) {
        hasWarned = true;
        process.emitWarning(error instanceof Error ? error : String(error));
      }
      try {
        answerHttp(response, error instanceof CheckFailure ? UNCHECKED : BROKEN);
      } catch {
        // The response can't be written, which may be the error itself: the client has gone, or has been answered.
      }
      return false;
    }
  };
}

/** For Express and similar frameworks: `app.use(expressLimit(limiter, describe))`. Errors go to `next`. */
export function expressLimit<Request = RoutedRequestLike>(
  limiter: Pick<Limiter, "check">,
  describe: Describe<Request>,
) {
  return (request: NoInfer<Request>, response: ResponseLike, next: (error?: unknown) => void): void => {
    limitHttp(limiter, describe, request, response).then((mayGoOn) => {
      if (mayGoOn) next();
    }, next);
  };
}

/** For Fastify: `app.addHook("onRequest", fastifyLimit(limiter, describe))`. Errors go to Fastify's error handler. */
export function fastifyLimit<Request = RoutedRequestLike>(
  limiter: Pick<Limiter, "check">,
  describe: Describe<Request>,
) {
  return async (request: NoInfer<Request>, reply: ReplyLike): Promise<unknown> => {
    const mayGoOn = await limitHttp(limiter, describe, request, {
      get headersSent() {
        return reply.sent === true;
      },
      set statusCode(status: number) {
        reply.code(status);
      },
      setHeader: (name, value) => reply.header(name, value),
      end: (body) => reply.send(body),
    });
    // A hook that returns the reply tells Fastify that it has answered.
    return mayGoOn ? undefined : reply;
  };
}

/**
 * X-RateLimit-Limit, -Remaining, -Reset and, if refused, Retry-After; then the service's own headers, which replace
 * them.
 */
export function limitHeaders(decision: CheckDecision): Record<string, string> {
  const { limit, remaining, resetSeconds, retryAfterSeconds } = decision;
  const headers: Record<string, string> = {};
  if (limit !== undefined) headers["X-RateLimit-Limit"] = String(limit.requestsPerUnit);
  if (remaining !== undefined) headers["X-RateLimit-Remaining"] = String(remaining);
  if (resetSeconds !== undefined) headers["X-RateLimit-Reset"] = String(resetSeconds);
  if (retryAfterSeconds !== undefined) headers["Retry-After"] = String(retryAfterSeconds);
  return { ...headers, ...decision.headers };
}

const PROBLEM_TYPE = "application/problem+json";

interface Problem {
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly reason?: string | undefined;
  readonly retryAfterSeconds?: number | undefined;
}

const UNCHECKED: Problem = {
  title: "Service Unavailable",
  status: 503,
  detail: "The rate limit could not be checked.",
  retryAfterSeconds: 1,
};
const BROKEN: Problem = {
  title: "Internal Server Error",
  status: 500,
  detail: "The rate limit of this request could not be asked for.",
};

// 429 means that the caller is over its limit. If no server answered, that is not the caller's fault: 503.
function refusalOf({ degraded, reason, retryAfterSeconds }: CheckDecision): Problem {
  if (degraded?.by === "client") return { ...UNCHECKED, reason, retryAfterSeconds };
  const detail =
    retryAfterSeconds === undefined ? "It costs more than its limit." : "Retry-After says when to try again.";
  return { title: "Too Many Requests", status: 429, detail, reason, retryAfterSeconds };
}

async function limitHttp<Request>(
  limiter: Pick<Limiter, "check">,
  describe: Describe<Request>,
  request: Request,
  response: ResponseLike,
): Promise<boolean> {
  const question = describe(request);
  const decision = question === undefined ? undefined : await limiter.check(question);
  // Other code may have answered while the check was under way: a timeout, or a handler that did not wait.
  if (response.headersSent === true) return false;
  if (decision === undefined) return true;
  for (const [name, value] of Object.entries(limitHeaders(decision))) response.setHeader(name, value);
  if (decision.allowed) return true;
  answerHttp(response, refusalOf(decision));
  return false;
}

function answerHttp(response: ResponseLike, problem: Problem): void {
  if (response.headersSent === true) return;
  response.statusCode = problem.status;
  if (problem.retryAfterSeconds !== undefined) response.setHeader("Retry-After", String(problem.retryAfterSeconds));
  response.setHeader("Content-Type", PROBLEM_TYPE);
  response.end(JSON.stringify({ type: "about:blank", ...problem }));
}
