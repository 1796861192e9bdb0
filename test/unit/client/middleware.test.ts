// What the middleware makes of decisions, on the members that it uses of Express's and Fastify's objects.

import { describe, expect, test } from "vitest";
import type { CheckDecision } from "../../../src/client/decision.ts";
import type { Limiter } from "../../../src/client/limiter.ts";
import { expressLimit, fastifyLimit, limitHeaders } from "../../../src/client/middleware.ts";

const BASE = { statuses: [], headers: {}, metadata: {} };
const SHOWN = { limit: { requestsPerUnit: 10 }, remaining: 3, resetSeconds: 2 };
const ALLOWED: CheckDecision = { allowed: true, ...BASE, ...SHOWN };
const REFUSED: CheckDecision = {
  ...ALLOWED,
  allowed: false,
  remaining: 0,
  retryAfterSeconds: 2,
  reason: "sliding_window_exceeded",
};
const UNREACHED: CheckDecision = {
  allowed: false,
  ...BASE,
  retryAfterSeconds: 1,
  degraded: { by: "client", policy: "deny", failure: "UNAVAILABLE" },
};

function deciding(decision: CheckDecision | Error): Limiter {
  return {
    check: () => (decision instanceof Error ? Promise.reject(decision) : Promise.resolve(decision)),
    close: () => undefined,
  };
}

class RecordedResponse {
  statusCode = 200;
  readonly headers: Record<string, string> = {};
  body: string | undefined;
  setHeader(name: string, value: string): void {
    this.headers[name.toLowerCase()] = value;
  }
  end(body: string): void {
    this.body = body;
  }
  code(status: number): void {
    this.statusCode = status;
  }
  header(name: string, value: string): void {
    this.setHeader(name, value);
  }
  send(body: string): void {
    this.end(body);
  }
}

const question = () => ({ domain: "edge", descriptors: [{ user: "a" }] });

function throughExpress(limiter: Limiter, describeRequest: () => ReturnType<typeof question> | undefined = question) {
  const response = new RecordedResponse();
  return new Promise<{ response: RecordedResponse; next?: readonly unknown[] }>((resolve) => {
    response.end = (body) => {
      response.body = body;
      resolve({ response });
    };
    expressLimit(limiter, describeRequest)({}, response, (...next) => resolve({ response, next }));
  });
}

describe("headers", () => {
  test("tell limit, rest and reset of an allowed call", () => {
    expect(limitHeaders(ALLOWED)).toEqual({
      "X-RateLimit-Limit": "10",
      "X-RateLimit-Remaining": "3",
      "X-RateLimit-Reset": "2",
    });
  });

  test("tell a refused one when to come back", () => {
    expect(limitHeaders(REFUSED)).toMatchObject({ "X-RateLimit-Remaining": "0", "Retry-After": "2" });
  });

  test("are the service's own where it sends them", () => {
    const headers = { "X-RateLimit-Limit": "11", "RateLimit-Policy": '"a";q=11' };
    expect(limitHeaders({ ...ALLOWED, headers })).toMatchObject({ ...headers, "X-RateLimit-Remaining": "3" });
  });

  test("say nothing where no limit applies", () => {
    expect(limitHeaders({ allowed: true, ...BASE })).toEqual({});
  });
});

describe("Express", () => {
  test("goes on with headers when the call is allowed", async () => {
    const { response, next } = await throughExpress(deciding(ALLOWED));
    expect(next).toEqual([]);
    expect(response.headers["x-ratelimit-remaining"]).toBe("3");
  });

  test("gets 429 with a problem body when it is not", async () => {
    const { response, next } = await throughExpress(deciding(REFUSED));
    expect(next).toBeUndefined();
    expect(response.statusCode).toBe(429);
    expect(response.headers).toMatchObject({ "content-type": "application/problem+json", "retry-after": "2" });
    expect(JSON.parse(response.body ?? "")).toMatchObject({
      title: "Too Many Requests",
      status: 429,
      reason: "sliding_window_exceeded",
      retryAfterSeconds: 2,
    });
  });

  test("gets 503 when nobody could be asked and the policy denies", async () => {
    const { response } = await throughExpress(deciding(UNREACHED));
    expect(response.statusCode).toBe(503);
    expect(response.headers["retry-after"]).toBe("1");
  });

  test("hands exceptions on", async () => {
    const error = new Error("no answer");
    expect((await throughExpress(deciding(error))).next).toEqual([error]);
  });

  test("is not asked about requests that the application leaves out", async () => {
    const { response, next } = await throughExpress(deciding(REFUSED), () => undefined);
    expect(next).toEqual([]);
    expect(response.headers).toEqual({});
  });
});

describe("Fastify", () => {
  test("goes on with headers when the call is allowed", async () => {
    const reply = new RecordedResponse();
    expect(await fastifyLimit(deciding(ALLOWED), question)({}, reply)).toBeUndefined();
    expect(reply.headers["x-ratelimit-limit"]).toBe("10");
  });

  test("gets 429, and the reply back as the sign that it was answered", async () => {
    const reply = new RecordedResponse();
    expect(await fastifyLimit(deciding(REFUSED), question)({}, reply)).toBe(reply);
    expect(reply.statusCode).toBe(429);
    expect(JSON.parse(reply.body ?? "")).toMatchObject({ status: 429 });
  });
});
