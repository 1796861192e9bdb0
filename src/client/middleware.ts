// A limiter in front of HTTP handlers: Express, Fastify and node:http, by the few members of theirs that are used.

import type { CheckDecision } from "./decision.ts";
import type { Limiter } from "./limiter.ts";
import type { CheckRequest } from "./request.ts";

/** What to ask about a request; undefined lets it pass unasked. */
export type Describe<Request> = (request: Request) => CheckRequest | undefined;

/** What is used of node:http's ServerResponse, and so of Express's. */
export interface ResponseLike {
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(body: string): unknown;
}

/** What is used of Fastify's reply. */
export interface ReplyLike {
  code(status: number): unknown;
  header(name: string, value: string): unknown;
  send(body: string): unknown;
}

/** For node:http: resolves to true when the request may go on, to false when it was answered here. */
export function httpLimit<Request>(limiter: Limiter, describe: Describe<Request>) {
  return async (request: Request, response: ResponseLike): Promise<boolean> => {
    const decision = await decide(limiter, describe, request);
    if (decision === undefined) return true;
    for (const [name, value] of Object.entries(limitHeaders(decision))) response.setHeader(name, value);
    if (decision.allowed) return true;
    const { status, body } = refusalOf(decision);
    response.statusCode = status;
    response.setHeader("Content-Type", PROBLEM_TYPE);
    response.end(body);
    return false;
  };
}

/** For Express and its kin: `app.use(expressLimit(limiter, describe))`. Exceptions go to `next`. */
export function expressLimit<Request>(limiter: Limiter, describe: Describe<Request>) {
  const limit = httpLimit(limiter, describe);
  return (request: Request, response: ResponseLike, next: (error?: unknown) => void): void => {
    limit(request, response).then((mayGoOn) => {
      if (mayGoOn) next();
    }, next);
  };
}

/** For Fastify: `app.addHook("onRequest", fastifyLimit(limiter, describe))`. */
export function fastifyLimit<Request>(limiter: Limiter, describe: Describe<Request>) {
  return async (request: Request, reply: ReplyLike): Promise<unknown> => {
    const decision = await decide(limiter, describe, request);
    if (decision === undefined) return undefined;
    for (const [name, value] of Object.entries(limitHeaders(decision))) reply.header(name, value);
    if (decision.allowed) return undefined;
    const { status, body } = refusalOf(decision);
    reply.code(status);
    reply.header("Content-Type", PROBLEM_TYPE);
    reply.send(body);
    // A hook that returns the reply has answered.
    return reply;
  };
}

/** X-RateLimit-Limit, -Remaining, -Reset and, if refused, Retry-After; then the headers that the service gave. */
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

// Over limit is the caller's doing, 429. That nobody could be asked is not: 503.
function refusalOf({ degraded, reason, retryAfterSeconds }: CheckDecision): { status: number; body: string } {
  const isOurs = degraded?.by === "client";
  const problem = isOurs
    ? { title: "Service Unavailable", status: 503, detail: "The rate limit could not be checked." }
    : { title: "Too Many Requests", status: 429, detail: `Try again in ${retryAfterSeconds} s.` };
  const body = JSON.stringify({ type: "about:blank", ...problem, reason, retryAfterSeconds });
  return { status: problem.status, body };
}

async function decide<Request>(
  limiter: Limiter,
  describe: Describe<Request>,
  request: Request,
): Promise<CheckDecision | undefined> {
  const question = describe(request);
  return question === undefined ? undefined : limiter.check(question);
}
