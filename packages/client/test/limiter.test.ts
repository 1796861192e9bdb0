// What a check comes to where no server is, and what a listener's own fault does to it: nothing.

import { afterEach, expect, test, vi } from "vitest";
import type { CheckFailure } from "../src/failure.ts";
import { createLimiter, type Limiter } from "../src/limiter.ts";

/** Nobody listens there. */
const NOBODY = "127.0.0.1:1";
const REQUEST = { domain: "edge", descriptors: [{ tenant: "acme" }] };

let limiter: Limiter;
afterEach(() => {
  limiter.close();
  vi.restoreAllMocks();
});

// Promise(clients): Apart from TypeErrors the client rejects only if asked to, and counts each check without an answer.
test.each(["allow", "deny"] as const)(
  "onFailure %s decides and counts each check, also where onDegraded throws, which is warned of",
  async (onFailure) => {
    const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => undefined);
    const codes: string[] = [];
    const onDegraded = ({ code }: CheckFailure) => {
      codes.push(code);
      throw new Error("no such counter");
    };
    limiter = createLimiter({ servers: [NOBODY], deadlineMs: 20_000, onFailure, onDegraded });
    const degraded = { by: "client", policy: onFailure, failure: "UNAVAILABLE" };
    expect(await limiter.check(REQUEST)).toMatchObject({ allowed: onFailure === "allow", degraded });
    expect(warn).toHaveBeenCalledExactlyOnceWith(expect.stringContaining("no such counter"), "HeadgateWarning");
    await limiter.check(REQUEST);
    expect(codes).toEqual(["UNAVAILABLE", "UNAVAILABLE"]);
  },
);

test.each(["allow", "deny", "throw"] as const)(
  "a closed limiter throws, whatever onFailure is: %s",
  async (onFailure) => {
    const onDegraded = vi.fn();
    limiter = createLimiter({ servers: [NOBODY], onFailure, onDegraded });
    limiter.close();
    const closed = { name: "CheckFailure", code: "CANCELLED", message: "the limiter is closed" };
    await expect(limiter.check(REQUEST)).rejects.toMatchObject(closed);
    await expect(limiter.wait({ ...REQUEST, maxWaitMs: 0 })).rejects.toMatchObject(closed);
    await expect(limiter.reserve({ domain: "edge", entries: { tenant: "acme" } })).rejects.toMatchObject(closed);
    expect(onDegraded).not.toHaveBeenCalled();
  },
);

test("a reservation can't be settled once its limiter is closed, and the end of its block never throws", async () => {
  limiter = createLimiter({ servers: [NOBODY] });
  const held = await limiter.reserve({ domain: "edge", entries: { tenant: "acme" } });
  limiter.close();
  await expect(held.settle(1)).rejects.toMatchObject({ code: "CANCELLED" });
  await held[Symbol.asyncDispose]();
});
