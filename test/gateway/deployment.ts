// What Envoy Gateway 1.5 to 1.9 gives the rate limit service that it deploys: every variable, port, probe and file. The same
// in all of these versions, but that 1.9 may take REDIS_URL from a Secret and declares the port of metrics.

import { readFileSync } from "node:fs";

type Variables = Readonly<Record<string, string>>;

interface Deployment {
  /** Variables whose values do not depend on the gateway's own configuration. */
  readonly always: Variables;
  /** With `rateLimit.telemetry.metrics`, which is on unless it is turned off. */
  readonly metrics: Variables;
  /** With `rateLimit.telemetry.tracing`. */
  readonly tracing: Variables;
  /** With `rateLimit.backend.redis.tls` and its `certificateRef`. */
  readonly redisTls: Variables;
}

const FILE = new URL("deployment.json", import.meta.url);

/** The variables; deployment.json, as bed.mjs starts the service with them, too. */
export const VARIABLES = JSON.parse(readFileSync(FILE, "utf8")) as Deployment;

/** Ports that are declared or asked without a variable that sets them; `egctl config envoy-ratelimit` asks the last one. */
export const PORTS = { grpc: 8081, http: 8080, debug: 6070 } as const;

/** What startup, readiness and liveness probe ask on the HTTP port. */
export const PROBE = "/healthcheck";

/** What is started, and what a manifest of Envoy AI Gateway's own tests passes to it. */
export const COMMAND = "/bin/ratelimit";
export const STRAY_FLAG = "--quotaRateLimitServiceAddr=envoy-ai-gateway-ratelimit:8081";
