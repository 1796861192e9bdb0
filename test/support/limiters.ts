// Limiters of the TypeScript client, closed with the test.

import { createLimiter, type Limiter, type LimiterOptions } from "../../packages/client/src/client.ts";
import { closedWithTest } from "./ends.ts";
import type { TestApp } from "./test-app.ts";

/** Nobody listens on port 1. */
export const NOBODY = "127.0.0.1:1";
/** Long enough for a slow machine; no test waits for it. */
const PATIENT = { deadlineMs: 5_000 } as const;

/** A limiter that waits long unless told otherwise. */
export function openLimiter(servers: readonly string[], options: Partial<LimiterOptions> = {}): Limiter {
  return closedWithTest(createLimiter({ servers, ...PATIENT, ...options }));
}

/** Where a client finds the service. */
export function addressOf({ grpcPort }: TestApp): string {
  return `127.0.0.1:${grpcPort}`;
}
