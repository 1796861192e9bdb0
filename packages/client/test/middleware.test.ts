// What the middleware makes of decisions, on the members that it uses of Express's and Fastify's objects.

import { afterAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { CheckDecision } from "../src/decision.ts";
import { CheckFailure } from "../src/failure.ts";
import type { Limiter } from "../src/limiter.ts";
import {
  type Describe,
  expressLimit,
  fastifyLimit,
  httpLimit,
  limitHeaders,
  type ResponseLike,
} from "../src/middleware.ts";

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

/** What came of one request: whether it may go on, and the error that the framework was handed. */
interface Outcome {
  readonly response: RecordedResponse;
  readonly goesOn: boolean;
  readonly error?: unknown;
}
type Through = (limiter: Pick<Limiter, "check">, ask?: Describe<unknown>) => Promise<Outcome>;

const throughExpress: Through = (limiter, ask = question) => {
  const response = new RecordedResponse();
  return new Promise((resolve) => {
    response.end = (body) => {
      response.body = body;
      resolve({ response, goesOn: false });
    };
    const next = (error?: unknown) => resolve({ response, goesOn: error === undefined, error });
    expressLimit<unknown>(limiter, ask)({}, response, next);
  });
};

const throughFastify: Through = async (limiter, ask = question) => {
  const response = new RecordedResponse();
  try {
    // The reply is the sign that the request was answered.
    return { response, goesOn: (await fastifyLimit<unknown>(limiter, ask)({}, response)) !== response };
  } catch (error) {
    return { response, goesOn: false, error };
  }
};

const own = { "X-RateLimit-Limit": "11", "RateLimit-Policy": '"a";q=11' };
const ofAllowed = { "X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "2" };

test.each([
  ["limit, rest and reset of an allowed call", ALLOWED, ofAllowed],
  ["when to come back after a refusal", REFUSED, { ...ofAllowed, "X-RateLimit-Remaining": "0", "Retry-After": "2" }],
  ["the service's own where it sends them", { ...ALLOWED, headers: own }, { ...ofAllowed, ...own }],
  ["nothing where no limit applies", { allowed: true, ...BASE }, {}],
])("headers tell %s", (_, decision, headers) => {
  expect(limitHeaders(decision)).toEqual(headers);
});

describe.each([
  { name: "Express", through: throughExpress },
  { name: "Fastify", through: throughFastify },
])("$name", ({ through }) => {
  test("goes on with headers when the call is allowed", async () => {
    const { response, goesOn, error } = await through(deciding(ALLOWED));
    expect([goesOn, error, response.headers["x-ratelimit-remaining"]]).toEqual([true, undefined, "3"]);
  });

  test("gets 429 with a problem body when it is not", async () => {
    const { response, goesOn } = await through(deciding(REFUSED));
    expect([goesOn, response.statusCode]).toEqual([false, 429]);
    expect(response.headers).toMatchObject({ "content-type": "application/problem+json", "retry-after": "2" });
    expect(JSON.parse(response.body ?? "")).toMatchObject({
      title: "Too Many Requests",
      status: 429,
      detail: "Retry-After says when to try again.",
      reason: "sliding_window_exceeded",
      retryAfterSeconds: 2,
    });
  });

  test("gets 503 when no server could be asked and the policy denies", async () => {
    const { response } = await through(deciding(UNREACHED));
    expect([response.statusCode, response.headers["retry-after"]]).toEqual([503, "1"]);
  });

  test("is handed exceptions", async () => {
    const error = new Error("no answer");
    expect(await through(deciding(error))).toMatchObject({ goesOn: false, error });
  });

  test("goes on without headers with requests that the application leaves out", async () => {
    const { response, goesOn } = await through(deciding(REFUSED), () => undefined);
    expect([goesOn, response.headers]).toEqual([true, {}]);
  });
});

test("a reply of Fastify that was answered by others meanwhile is left alone", async () => {
  const reply = new RecordedResponse();
  reply.sent = true;
  expect(await fastifyLimit<unknown>(deciding(REFUSED), question)({}, reply)).toBe(reply);
  expect([reply.headers, reply.body]).toEqual([{}, undefined]);
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
    { name: "a mistake of the function that describes requests", outcome: new TypeError("no value"), status: 500 },
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
