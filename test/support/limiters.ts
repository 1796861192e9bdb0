// Limiters of the TypeScript client for the tests of one file, closed together.

import { createLimiter, type Limiter, type LimiterOptions } from "../../client/src/client.ts";
import type { TestApp } from "./test-app.ts";

/** Nobody listens on port 1. */
export const NOBODY = "127.0.0.1:1";
/** Long enough for a slow machine; no test waits for it. */
const PATIENT = { deadlineMs: 5_000 } as const;

const limiters: Limiter[] = [];

/** A limiter that waits long unless told otherwise. */
export function openLimiter(servers: readonly string[], options: Partial<LimiterOptions> = {}): Limiter {
  const limiter = createLimiter({ servers, ...PATIENT, ...options });
  limiters.push(limiter);
  return limiter;
}

/** Closes all that `openLimiter` has opened. */
export function closeLimiters(): void {
  for (const limiter of limiters.splice(0)) limiter.close();
}

/** Where a client finds the service. */
export function addressOf({ grpcPort }: TestApp): string {
  return `127.0.0.1:${grpcPort}`;
}
