// What `npm run bench:load` tries: each shape is the same load on the yardstick and on the service, with the goal it is held to.

/** Four connections with fifty calls under way on each: what a few busy proxies do. */
const USUAL = { connections: 4, streams: 50 };

/**
 * `by` h2load sends one message again and again; `by` caller sends what varies (caller.mjs); `by` envoy is h2load in front of
 * an Envoy that asks the server, and there only `us of CPU` and its ratio speak of the server: the rest of the time is
 * Envoy's. `rules` names a rule file of rules.mjs, `store` says where the buckets are ("redis", "cluster", "postgres"; else
 * memory), `tls` how both servers are secured ("server", "mutual"). `goal` is the least ratio to the yardstick; shapes
 * without one are for looking.
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
  {
    name: "memory, reserve and settle, 10,000 keys",
    by: "caller",
    ...USUAL,
    rules: "holds",
    message: "holds",
    keys: 10_000,
    goal: 5,
  },
  {
    name: "Redis, reserve and settle, 10,000 keys",
    by: "caller",
    ...USUAL,
    rules: "holds",
    message: "holds",
    keys: 10_000,
    store: "redis",
    goal: 3,
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
  {
    name: "Redis Cluster of three, exact, 10,000 keys",
    by: "caller",
    ...USUAL,
    rules: "hot",
    message: "spread",
    keys: 10_000,
    store: "cluster",
  },
  // What envoyproxy/ratelimit reaches on the yardstick's machine.
  {
    name: "Redis, one call at a time",
    by: "caller",
    connections: 1,
    streams: 1,
    rules: "hot",
    store: "redis",
    goal: 0.95,
  },
  { name: "memory, hot key, TLS", by: "caller", ...USUAL, rules: "hot", tls: "server", goal: 9 },
  { name: "memory, hot key, mutual TLS", by: "caller", ...USUAL, rules: "hot", tls: "mutual", goal: 9 },
  { name: "memory, one call at a time", by: "h2load", connections: 1, streams: 1, rules: "hot", goal: 2.5 },
  { name: "memory, 64 connections x 1 stream", by: "h2load", connections: 64, streams: 1, rules: "hot" },
  { name: "memory, 1,000 connections x 1 stream", by: "caller", connections: 1_000, streams: 1, rules: "hot" },
  { name: "memory, another grpc-timeout in every call", by: "caller", ...USUAL, rules: "hot", vary: "timeout" },
  { name: "memory, a traceparent in every call", by: "caller", ...USUAL, rules: "hot", vary: "traceparent" },
  { name: "memory, 100,000 keys, uniform", by: "caller", ...USUAL, rules: "hot", message: "spread", keys: 100_000 },
  {
    name: "memory, 100,000 keys, uniform, a limit in each call",
    by: "caller",
    ...USUAL,
    rules: "brought",
    message: "brought",
    keys: 100_000,
  },
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
    name: "memory, with 8 clients that read no answer",
    by: "caller",
    ...USUAL,
    rules: "hot",
    slowConnections: 8,
  },
  { name: "memory, asked by Envoy", by: "envoy", ...USUAL, rules: "hot" },
];

/** 128 callers on four connections, 14,000 calls a second: a rate that most fleets run at. */
const FLEET = {
  by: "caller",
  connections: 4,
  streams: 32,
  rate: 14_000,
  rules: "minute",
  message: "spread",
  keys: 10_000,
};

/**
 * What is measured beside a stand-in for another way (stand-ins.mjs): for each figure the most that Headgate's may be of the
 * stand-in's.
 */
export const BESIDE = [
  { name: "Redis, 14,000 calls/s", ...FLEET, store: "redis", standIn: "increments", goals: { storeMicrosPerCall: 1 } },
  {
    name: "Redis Cluster of three, 14,000 calls/s",
    ...FLEET,
    store: "cluster",
    standIn: "increments",
    goals: { storeMicrosPerCall: 1 },
  },
  {
    name: "Redis, one call at a time",
    ...FLEET,
    connections: 1,
    streams: 1,
    rate: 0,
    store: "redis",
    standIn: "increments",
    goals: { p50Us: 1.05, storeMicrosPerCall: undefined, cpuMicrosPerCall: undefined },
  },
  {
    name: "PostgreSQL, exact, 10,000 keys",
    ...FLEET,
    streams: 50,
    rate: 0,
    rules: "hot",
    store: "postgres",
    standIn: "updates",
    goals: { storeMicrosPerCall: 1.5, cpuMicrosPerCall: 1.5 },
  },
];

/** Calls per CPU second must not fall with the number of rules: the same ten keys, asked of few and of many rules. */
export const RULE_COUNTS = { few: "10 rules", many: "10,000 rules", keys: 10, goalMost: 1.15 };

/** What is measured at half of the load that saturates it; `goalMs` is what p99 from sending must stay below. */
export const TAILS = [
  { name: "memory, hot key", by: "h2load", ...USUAL, rules: "hot", goalMs: 2 },
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
