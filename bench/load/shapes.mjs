// What `npm run bench:load` tries: each shape is the same load on the yardstick and on the service, with the goal it is held to.

/** Four connections with fifty calls under way on each: what a few busy proxies do. */
const USUAL = { connections: 4, streams: 50 };

/**
 * `by` h2load sends one message again and again; `by` caller sends what varies (caller.mjs); `by` envoy is h2load in front of
 * an Envoy that asks the server, and there only `us of CPU` and its ratio speak of the server: the rest of the time is
 * Envoy's. `rules` names a rule file of rules.mjs, `store` says where the buckets are ("redis", "postgres"; else memory). `goal` is the least ratio to the yardstick;
 * shapes without one are for looking.
 */
export const SHAPES = [
  { name: "memory, hot key", by: "h2load", ...USUAL, rules: "hot", goal: 9 },
  {
    name: "memory, two descriptors + global limit, a million keys",
    by: "caller",
    ...USUAL,
    rules: "two",
    message: "two",
    keys: 1_000_000,
    // Two buckets for each key, and none gives way.
    env: { BUCKETS_MAX: "4000000" },
    goal: 5,
  },
  {
    name: "Redis, exact, 10,000 keys",
    by: "caller",
    ...USUAL,
    rules: "hot",
    message: "spread",
    keys: 10_000,
    store: "redis",
    goal: 4,
  },
  { name: "Redis, hot key, refused", by: "caller", ...USUAL, rules: "refused", store: "redis", goal: 8 },
  { name: "Redis, hot key, lease", by: "caller", ...USUAL, rules: "lease", store: "redis", goal: 8 },
  {
    name: "PostgreSQL, exact, 10,000 keys",
    by: "caller",
    ...USUAL,
    rules: "hot",
    message: "spread",
    keys: 10_000,
    store: "postgres",
  },
  { name: "PostgreSQL, hot key, lease", by: "caller", ...USUAL, rules: "lease", store: "postgres" },
  { name: "memory, one call at a time", by: "h2load", connections: 1, streams: 1, rules: "hot", goal: 2.5 },
  { name: "memory, 64 connections x 1 stream", by: "h2load", connections: 64, streams: 1, rules: "hot" },
  { name: "memory, 1,000 connections x 1 stream", by: "caller", connections: 1_000, streams: 1, rules: "hot" },
  { name: "memory, another grpc-timeout in every call", by: "caller", ...USUAL, rules: "hot", vary: "timeout" },
  { name: "memory, a traceparent in every call", by: "caller", ...USUAL, rules: "hot", vary: "traceparent" },
  { name: "memory, 100,000 keys, uniform", by: "caller", ...USUAL, rules: "hot", message: "spread", keys: 100_000 },
  {
    name: "memory, 100,000 keys, zipf",
    by: "caller",
    ...USUAL,
    rules: "hot",
    message: "spread",
    keys: 100_000,
    spread: "zipf",
  },
  { name: "memory, refused", by: "caller", ...USUAL, rules: "refused" },
  { name: "memory, eight descriptors", by: "caller", ...USUAL, rules: "many", message: "many", keys: 10_000 },
  { name: "memory, 10,000 rules", by: "caller", ...USUAL, rules: "10,000 rules", message: "rules", keys: 10_000 },
  {
    name: "memory, 1,000 rules, reloaded every second",
    by: "caller",
    ...USUAL,
    rules: "1,000 rules",
    message: "rules",
    keys: 1_000,
    env: { BENCH_RELOAD_MS: "1000" },
  },
  {
    name: "memory, beside 8 clients that read no answer",
    by: "caller",
    ...USUAL,
    rules: "hot",
    slowConnections: 8,
  },
  { name: "memory, asked by Envoy", by: "envoy", ...USUAL, rules: "hot" },
];

/** Calls per CPU second must not fall with the number of rules: the same ten keys, asked of few and of many rules. */
export const RULE_COUNTS = { few: "10 rules", many: "10,000 rules", keys: 10, goalMost: 1.15 };

/** What is measured at half of the load that saturates it; `goalMs` is what p99 must stay below. */
export const TAILS = [
  { name: "memory, hot key", by: "h2load", ...USUAL, rules: "hot", goalMs: 5 },
  {
    name: "Redis, exact, 10,000 keys",
    by: "caller",
    ...USUAL,
    rules: "hot",
    message: "spread",
    keys: 10_000,
    store: "redis",
  },
];
