// What the client's callers are told of an answer.

import { describe, expect, test } from "vitest";
import { readInClient } from "../../../test/support/client-wire.ts";
import { structOf } from "../../../test/support/mirror-rig.ts";
import { type Answer, decisionOf } from "../src/decision.ts";

interface StatusNumbers {
  readonly over?: boolean;
  readonly amount?: number;
  readonly unit?: string;
  readonly left?: number;
  readonly seconds?: number;
}

function status({ over = false, amount = 10, unit = "SECOND", left = 0, seconds = 1 }: StatusNumbers) {
  return {
    code: over ? "OVER_LIMIT" : "OK",
    current_limit: { requests_per_unit: amount, unit, name: "" },
    limit_remaining: left,
    duration_until_reset: { seconds: String(seconds), nanos: 0 },
  };
}

/** What comes of a RateLimitResponse on its way over the wire. */
function answer(members: object): Answer {
  return readInClient({ overall_code: "OK", ...members });
}

describe("an answer", () => {
  test("that allows shows the limit with the least left", () => {
    const statuses = [status({ left: 9, seconds: 60 }), status({ left: 2, amount: 5 }), status({ left: 4 })];
    expect(decisionOf(answer({ statuses }))).toMatchObject({
      allowed: true,
      limit: { requestsPerUnit: 5, unit: "second" },
      remaining: 2,
      resetSeconds: 1,
    });
  });

  test("that refuses shows the longest wait, whatever others have left", () => {
    const statuses = [
      status({ over: true, seconds: 3 }),
      status({ over: true, seconds: 40, amount: 7 }),
      status({ seconds: 99 }),
    ];
    expect(decisionOf(answer({ overall_code: "OVER_LIMIT", statuses }))).toMatchObject({
      allowed: false,
      limit: { requestsPerUnit: 7 },
      resetSeconds: 40,
      retryAfterSeconds: 40,
    });
  });

  test("that allows is not governed by a limit that is over in shadow mode", () => {
    const decision = decisionOf(answer({ statuses: [status({ over: true }), status({ left: 3 })] }));
    expect(decision).toMatchObject({ allowed: true, remaining: 3 });
    expect(decision.statuses.map(({ allowed }) => allowed)).toEqual([false, true]);
  });

  test("takes Retry-After from the service, with its jitter", () => {
    const headers = [{ key: "Retry-After", value: "13" }];
    const refused = { overall_code: "OVER_LIMIT", statuses: [status({ over: true, seconds: 10 })] };
    expect(decisionOf(answer({ ...refused, response_headers_to_add: headers })).retryAfterSeconds).toBe(13);
  });

  test("names rule, reason and what the server did without its store", () => {
    const dynamic_metadata = structOf({
      rule: "edge/user",
      reason: "token_bucket_exceeded",
      remaining: 0,
      degraded: { policy: "local", failure: "STORE_TIMEOUT" },
    });
    expect(decisionOf(answer({ overall_code: "OVER_LIMIT", dynamic_metadata }))).toMatchObject({
      rule: "edge/user",
      reason: "token_bucket_exceeded",
      metadata: { remaining: 0 },
      degraded: { by: "server", policy: "local", failure: "STORE_TIMEOUT" },
      retryAfterSeconds: 1,
    });
  });
});
