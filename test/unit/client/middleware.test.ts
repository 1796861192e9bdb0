// What the middleware makes of decisions, on the members that it uses of Express's and Fastify's objects.

import { afterAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { CheckDecision } from "../../../client/src/decision.ts";
import { CheckFailure } from "../../../client/src/failure.ts";
import type { Limiter } from "../../../client/src/limiter.ts";
import {
  expressLimit,
  fastifyLimit,
  httpLimit,
  limitHeaders,
  type ResponseLike,
} from "../../../client/src/middleware.ts";

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

function deciding(decision: CheckDecision | Error): Pick<Limiter, "check"> {
  return { check: () => (decision instanceof Error ? Promise.reject(decision) : Promise.resolve(decision)) };
}

class RecordedResponse {
  statusCode = 200;
  headersSent = false;
  sent = false;
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

function throughExpress(
  limiter: Pick<Limiter, "check">,
  describeRequest: () => ReturnType<typeof question> | undefined = question,
) {
  const response = new RecordedResponse();
  return new Promise<{ response: RecordedResponse; next?: readonly unknown[] }>((resolve) => {
    response.end = (body) => {
      response.body = body;
      resolve({ response });
    };
    expressLimit<unknown>(limiter, describeRequest)({}, response, (...next) => resolve({ response, next }));
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
    expect(await fastifyLimit<unknown>(deciding(ALLOWED), question)({}, reply)).toBeUndefined();
    expect(reply.headers["x-ratelimit-limit"]).toBe("10");
  });

  test("gets 429, and the reply back as the sign that it was answered", async () => {
    const reply = new RecordedResponse();
    expect(await fastifyLimit<unknown>(deciding(REFUSED), question)({}, reply)).toBe(reply);
    expect(reply.statusCode).toBe(429);
    expect(JSON.parse(reply.body ?? "")).toMatchObject({ status: 429 });
  });

  test("that was answered by others meanwhile is left alone", async () => {
    const reply = new RecordedResponse();
    reply.sent = true;
    expect(await fastifyLimit<unknown>(deciding(REFUSED), question)({}, reply)).toBe(reply);
    expect([reply.headers, reply.body]).toEqual([{}, undefined]);
  });

  test("gets exceptions", async () => {
    const limit = fastifyLimit<unknown>(deciding(new TypeError("no value")), question);
    await expect(limit({}, new RecordedResponse())).rejects.toThrow("no value");
  });
});

describe("node:http", () => {
  const warnings = vi.spyOn(process, "emitWarning").mockImplementation(() => undefined);
  beforeEach(() => warnings.mockClear());
  afterAll(() => warnings.mockRestore());

  const throwing = () => {
    throw new TypeError("the entry tenant has no value");
  };
  const failed = new CheckFailure("UNAVAILABLE", "none of the servers is in reach");
  const withResponse = (change: (response: RecordedResponse) => void): RecordedResponse => {
    const response = new RecordedResponse();
    change(response);
    return response;
  };
  const isSent = (response: RecordedResponse) => {
    response.headersSent = true;
    response.setHeader = throwing;
    response.end = throwing;
  };
  const outcomes = [ALLOWED, REFUSED, UNREACHED, failed, new TypeError("no value")];

  // Promise(clients): `httpLimit` never rejects, and passes on no request whose response was already sent.
  test.each([
    { name: "is open", change: () => undefined },
    { name: "was sent already", change: isSent },
    {
      name: "takes no headers",
      change: (response: RecordedResponse) => {
        response.setHeader = throwing;
      },
    },
    {
      name: "can't be ended",
      change: (response: RecordedResponse) => {
        response.end = throwing;
      },
    },
  ])("never rejects when the response $name, whatever the check came to", async ({ change }) => {
    for (const outcome of outcomes) {
      for (const describeRequest of [question, () => undefined, throwing]) {
        const answer = httpLimit<unknown>(deciding(outcome), describeRequest)({}, withResponse(change));
        expect(await answer).toBeTypeOf("boolean");
      }
    }
  });

  test.each([...outcomes.entries()])("lets no request on whose response was sent: outcome %i", async (_, outcome) => {
    expect(await httpLimit<unknown>(deciding(outcome), question)({}, withResponse(isSent))).toBe(false);
  });

  test.each([
    { name: "a mistake of whoever describes requests", outcome: new TypeError("no value"), status: 500 },
    { name: "a check that failed and throws", outcome: failed, status: 503 },
  ])("answers $name with $status", async ({ outcome, status }) => {
    const response: RecordedResponse & ResponseLike = new RecordedResponse();
    expect(await httpLimit<unknown>(deciding(outcome), question)({}, response)).toBe(false);
    expect(response.statusCode).toBe(status);
    expect(JSON.parse(response.body ?? "")).toMatchObject({ status });
  });

  test("tells the first mistake as a warning of the process", async () => {
    const limit = httpLimit<unknown>(deciding(new TypeError("no value for tenant")), question);
    await limit({}, new RecordedResponse());
    await limit({}, new RecordedResponse());
    expect(warnings.mock.calls).toEqual([[new TypeError("no value for tenant")]]);
  });
});
