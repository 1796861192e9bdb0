// What `npm run bench:load` tries: each shape is the same load on the yardstick and on the service, with the goal it is held to.

/**
 * `by` h2load sends one message again and again; `by` caller sends what varies (caller.mjs). `rules` names a rule file of
 * rules.mjs, `redis` puts the buckets there. `goal` is the least ratio to the yardstick; shapes without one are for looking.
 */
export const SHAPES = [
  { name: "memory, hot key", by: "h2load", connections: 4, streams: 50, rules: "hot", goal: 9 },
  {
    name: "memory, two descriptors + global limit, a million keys",
    by: "caller",
    connections: 4,
    streams: 50,
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
    connections: 4,
    streams: 50,
    rules: "hot",
    message: "spread",
    keys: 10_000,
    redis: true,
    goal: 4,
  },
  {
    name: "Redis, hot key, refused",
    by: "caller",
    connections: 4,
    streams: 50,
    rules: "refused",
    redis: true,
    goal: 8,
  },
  { name: "Redis, hot key, lease", by: "h2load", connections: 4, streams: 50, rules: "lease", redis: true, goal: 8 },
  { name: "memory, one call at a time", by: "h2load", connections: 1, streams: 1, rules: "hot", goal: 2.5 },
  { name: "memory, 64 connections x 1 stream", by: "h2load", connections: 64, streams: 1, rules: "hot" },
  { name: "memory, 1,000 connections x 1 stream", by: "h2load", connections: 1_000, streams: 1, rules: "hot" },
  {
    name: "memory, another grpc-timeout in every call",
    by: "caller",
    connections: 4,
    streams: 50,
    rules: "hot",
    vary: "timeout",
  },
  {
    name: "memory, a traceparent in every call",
    by: "caller",
    connections: 4,
    streams: 50,
    rules: "hot",
    vary: "traceparent",
  },
  {
    name: "memory, 100,000 keys, uniform",
    by: "caller",
    connections: 4,
    streams: 50,
    rules: "hot",
    message: "spread",
    keys: 100_000,
  },
  {
    name: "memory, 100,000 keys, zipf",
    by: "caller",
    connections: 4,
    streams: 50,
    rules: "hot",
    message: "spread",
    keys: 100_000,
    spread: "zipf",
  },
  { name: "memory, refused", by: "caller", connections: 4, streams: 50, rules: "refused" },
  {
    name: "memory, eight descriptors",
    by: "caller",
    connections: 4,
    streams: 50,
    rules: "many",
    message: "many",
    keys: 10_000,
  },
  {
    name: "memory, 10,000 rules",
    by: "caller",
    connections: 4,
    streams: 50,
    rules: "rules",
    message: "rules",
    keys: 10_000,
  },
];

/** Issue's shapes that the bench does not send yet; said on the screen, so that nobody takes them for measured. */
export const NOT_MEASURED = ["Envoy as the caller", "reload under load", "a slow client beside others"];

/** The tail at half of the load that saturates, in milliseconds. */
export const TAIL_GOAL_MS = 5;
