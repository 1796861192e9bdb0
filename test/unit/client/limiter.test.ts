// What a check comes to where no server is, and what a listener's own fault does to it: nothing.

import { afterEach, expect, test, vi } from "vitest";
import { createLimiter, type Limiter } from "../../../client/src/limiter.ts";

/** Nobody listens there. */
const NOBODY = "127.0.0.1:1";
const REQUEST = { domain: "edge", descriptors: [{ tenant: "acme" }] };

let limiter: Limiter;
afterEach(() => {
  limiter.close();
  vi.restoreAllMocks();
});

test.each(["allow", "deny"] as const)(
  "onFailure %s decides, also where onDegraded throws, which is warned of",
  async (onFailure) => {
    const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => undefined);
    const onDegraded = () => {
      throw new Error("no such counter");
    };
    limiter = createLimiter({ servers: [NOBODY], onFailure, onDegraded });
    expect(await limiter.check(REQUEST)).toMatchObject({ allowed: onFailure === "allow" });
    expect(warn).toHaveBeenCalledExactlyOnceWith(expect.stringContaining("no such counter"), "HeadgateWarning");
  },
);
