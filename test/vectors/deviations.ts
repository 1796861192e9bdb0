// Cases in which Headgate differs from the recorded service on purpose, and why. Beyond them codes and texts of errors
// are Headgate's own everywhere. docs/migrating.md tells operators the same.

const TRUE_HEALTH =
  "health tells the truth: without usable rules, and without the Redis that calls need, a process is not ready, under every name";
const HUGE_HITS =
  "hits of 2^63 and more count as very many; they do not lower the counter, which would hand out unlimited room";
const NO_DEBUG_PORT =
  "there is no debug port: /rlconfig is on the HTTP port, answers GET only, and shows an unlimited rule with 0 requests";

/** Reasons by the name of the case. */
export const DEVIATIONS: Readonly<Record<string, string>> = {
  "bad first configuration: the service runs without one": TRUE_HEALTH,
  "health with HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED and no files": TRUE_HEALTH,
  "Redis down with REDIS_HEALTH_CHECK_ACTIVE_CONNECTION": TRUE_HEALTH,
  "Redis down for long: calls wait for their own deadline": `a dead Redis is an error at once, over HTTP too, and no wait without end; ${TRUE_HEALTH}`,
  "descriptor hits beyond the signed 64-bit limit": HUGE_HITS,
  "descriptor hits beyond the signed 64-bit limit refund": HUGE_HITS,
  "stop-increment: hits beyond the signed 64-bit limit": HUGE_HITS,
  "is_negative_hits is newer than the recorded version: ignored":
    "hits are given back, as later versions of the service do; the recorded one charges them",
  "/rlconfig text": NO_DEBUG_PORT,
  "/healthcheck and unknown paths":
    "Headgate has pages of its own on the HTTP port, and a health name per gRPC service",
};
