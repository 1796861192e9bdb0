// What createLimiter makes of its options, right and wrong.

import { expect, test } from "vitest";
import { createLimiter } from "../src/limiter.ts";
import { completeOptions, type LimiterOptions } from "../src/options.ts";

const servers = ["localhost:8081"];

test("what is left out has its default", () => {
  expect(completeOptions({ servers })).toEqual({
    servers,
    deadlineMs: 100,
    onFailure: "allow",
    onDegraded: undefined,
    keepaliveMs: 20_000,
    tls: undefined,
  });
});

test("TLS may be asked for by a word or in full", () => {
  expect([completeOptions({ servers, tls: true }).tls, completeOptions({ servers, tls: false }).tls]).toEqual([
    {},
    undefined,
  ]);
  expect(completeOptions({ servers, tls: { serverName: "a" } }).tls).toEqual({ serverName: "a" });
});

// Node's timers take no more than 2^31 - 1; a longer one ends at once, and every check with it.
const oddTimes = [-1, 0.5, 2 ** 31, Number.NaN, Number.POSITIVE_INFINITY, "100", null, [100]];
const mistakes: readonly (readonly [what: string, options: unknown])[] = [
  ...[undefined, null, "localhost:8081", servers].map((options) => ["the options", options] as const),
  ...[
    undefined,
    null,
    [],
    "localhost:8081",
    {},
    [""],
    ["localhost"],
    ["dns:///localhost"],
    [":8081"],
    ["unix:"],
    ["http://localhost:8081"],
    ["https://localhost:8081"],
    ["grpc://localhost:8081"],
    ["localhost:0"],
    ["localhost:65536"],
    ["localhost:8081/"],
    ["user@localhost:8081"],
    ["localhost :8081"],
    ["::1:8081"],
    [8081],
    [undefined],
    [servers],
  ].map((each) => ["servers", { servers: each }] as const),
  ...oddTimes.map((deadlineMs) => ["deadlineMs", { servers, deadlineMs }] as const),
  ["deadlineMs", { servers, deadlineMs: 0 }],
  ...oddTimes.map((keepaliveMs) => ["keepaliveMs", { servers, keepaliveMs }] as const),
  ...["Allow", "open", "", null, true].map((onFailure) => ["onFailure", { servers, onFailure }] as const),
  ...["log", null, {}].map((onDegraded) => ["onDegraded", { servers, onDegraded }] as const),
  ...["true", 1, null, [], { cert: "x" }, { key: "x" }, { ca: 7 }, { serverName: "" }, { servername: "a" }].map(
    (tls) => ["tls", { servers, tls }] as const,
  ),
  ["tls that can't be read", { servers, tls: { cert: "no PEM", key: "no PEM" } }],
];

// Promise(clients): Mistakes in calls and options of the TypeScript client are TypeErrors, whatever the policy.
test.each(mistakes)("a mistake in %s is a TypeError at creation: %j", (_, options) => {
  const create = () => createLimiter(options as LimiterOptions).close();
  expect(create).toThrow(TypeError);
  expect(create).toThrow(/expected/);
});

test("a misspelt option is named with those that there are", () => {
  const create = () => createLimiter({ server: "localhost:8081" } as unknown as LimiterOptions);
  expect(create).toThrow('createLimiter: there is no "server"; expected servers, deadlineMs,');
});
