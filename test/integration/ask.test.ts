// `headgate ask` and `headgate explain --server` against a real service on free ports.

import { beforeAll, expect, test } from "vitest";
import { runProgram } from "../support/run-program.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

let app: TestApp;
let at: readonly string[];
beforeAll(async () => {
  app = await startTestApp(
    `domain: edge
descriptors:
  - key: tenant
    rate_limit: { name: per-tenant, requests_per_unit: 3, unit: year }
  - key: path
    rate_limit: { requests_per_unit: 100, window: 90s }
`,
    { RESPONSE_HEADERS: "ratelimit" },
  );
  at = ["-d", "edge", "-s", `127.0.0.1:${app.grpcPort}`];
});

test("prints the answer and ends with 0 when the call passes", async () => {
  const { out, exitCode } = await runProgram(["ask", ...at, "tenant=a", "path=/x"]);
  expect(exitCode).toBe(0);
  expect(out).toMatch(/^OK {2}domain edge at 127/);
  expect(out).toContain("tenant=a\n  OK  per-tenant: 3 per year, 2 left");
  expect(out).toContain("path=/x\n  OK  99 of 100 left");
  expect(out).toContain("RateLimit-Remaining: 2");
});

test("ends with 1 when a call is over its limit, and names the rule", async () => {
  const { out, exitCode } = await runProgram(["ask", ...at, "--hits", "4", "tenant=b"]);
  expect(exitCode).toBe(1);
  expect(out).toMatch(/^OVER_LIMIT/);
  // Four hits never fit a limit of three: there is nothing to wait for.
  expect(out).not.toContain("Retry-After:");
  expect(out).toMatch(/metadata\n(?: {2}.*\n)* {2}rule: \S*tenant/);
  expect(out).toContain("  remaining: 3\n");
});

test("repeats and sums up", async () => {
  const { out, exitCode } = await runProgram(["ask", ...at, "-n", "5", "tenant=c"]);
  expect(exitCode).toBe(1);
  expect(out.split("\n").filter((line) => /^ +\d+ {2}(?:OK|OVER_LIMIT)/.test(line))).toHaveLength(5);
  expect(out).toMatch(/\n3 passed, 2 over limit\n$/);
});

test("peeks without paying and gives back what was paid", async () => {
  const left = async (...args: string[]) => {
    const { out } = await runProgram(["ask", ...at, "--json", ...args, "tenant=d"]);
    return (JSON.parse(out) as { statuses: { remaining: number }[] }).statuses[0]?.remaining;
  };
  expect([await left("--hits", "2"), await left("--peek"), await left("--refund"), await left("--peek")]).toEqual([
    1, 1, 2, 2,
  ]);
});

test("says that a port speaks no gRPC", async () => {
  const { err, exitCode } = await runProgram(["ask", "-d", "edge", "-s", `127.0.0.1:${app.httpPort}`, "tenant=a"]);
  expect(err).toMatch(/^UNAVAILABLE: 127\.0\.0\.1:\d+ doesn't speak gRPC\. /);
  expect(exitCode).toBe(2);
});

test("says that a domain has no rules, rather than OK alone", async () => {
  const asked = ["ask", "-d", "egde", "-s", `127.0.0.1:${app.grpcPort}`];
  const [one, many] = [await runProgram([...asked, "tenant=a"]), await runProgram([...asked, "-n", "2", "tenant=a"])];
  expect(one.out).toContain("the service has no rules for this domain, so nothing is limited");
  expect(many.out.match(/the service has no rules for this domain/g)).toHaveLength(2);
});

// Promise(operators): `ask`, `explain`, `/config`, metrics and the log tell of descriptors that met no rule.
test("ask, explain, /config, metrics and the log report a descriptor that matches no rule", async () => {
  const { out } = await runProgram(["ask", ...at, "tenant=a,weight=5"]);
  expect(out).toContain("no rule applies: passes without a limit");
  const server = `127.0.0.1:${app.httpPort}`;
  const explained = await runProgram(["explain", "-d", "edge", "-s", server, "tenant=a,weight=5"]);
  expect(explained.out).toContain("If 'weight' carries a cost, say so at that rule: cost: { entry: weight }.");
  expect(explained.out).toContain("1 descriptor of this domain met no rule since the server began; one had the keys");
  const config = (await (await app.http("/config")).json()) as { rules: { unmatched_descriptors: object[] } };
  const entry = { domain: "edge", has_rules: true, descriptors: 1, example_keys: ["tenant", "weight"] };
  expect(config.rules.unmatched_descriptors).toContainEqual(entry);
  expect(await (await app.http("/metrics")).text()).toContain(
    'headgate_unmatched_descriptors_total{domain="edge"} 1\n',
  );
  await expect.poll(() => app.log.filter((line) => line.includes("descriptors met no rule"))).toHaveLength(1);
});

// Promise(operators): `ask`, `explain`, `/config`, metrics and the log tell of descriptors that met no rule.
test("ask reports a descriptor that matches no rule also under a global limit", async () => {
  const limited = await startTestApp(`domain: edge
global_limit: { name: all, requests_per_unit: 2, unit: year }
descriptors:
  - key: tenant
    rate_limit: { name: per-tenant, requests_per_unit: 1, unit: year }
`);
  const asked = ["ask", "-d", "edge", "-s", `127.0.0.1:${limited.grpcPort}`, "tenant=a", "other=b"];
  const says = "no rule applies to this descriptor: only the global limit counts it";
  const { out } = await runProgram(asked);
  expect(out).toContain(`other=b\n  OK  all: 2 per year, 1 left`);
  expect(out.split(says)).toHaveLength(2);
  expect(out.indexOf(says)).toBeGreaterThan(out.indexOf("other=b"));
  const refused = await runProgram([...asked, "-n", "2"]);
  expect(refused.out).toContain("| no rule, ");
});

test("ends with 2 and says so when nobody listens", async () => {
  const { err, exitCode } = await runProgram(["ask", "-d", "edge", "-s", "127.0.0.1:1", "tenant=a"]);
  expect(exitCode).toBe(2);
  expect(err).toMatch(/^UNAVAILABLE: can't connect: connect ECONNREFUSED 127\.0\.0\.1:1$/m);
  expect(err).toContain("Is the service running there?");
});

test("ends with 2 on an error of the service, in its words", async () => {
  const { err, exitCode } = await runProgram(`ask -d ${"d".repeat(1_025)} -s 127.0.0.1:${app.grpcPort} tenant=a`);
  expect(exitCode).toBe(2);
  expect(err).toMatch(/^INVALID_ARGUMENT: REQUEST_DOMAIN_TOO_LONG/);
});

test("explain asks a running server for the rules in force", async () => {
  const { out, exitCode } = await runProgram(["explain", "-d", "edge", "-s", `127.0.0.1:${app.httpPort}`, "tenant=a"]);
  expect(exitCode).toBe(0);
  expect(out).toContain("=> the rule 'tenant' applies");
});

test("explain ends with 2 when the server is not there or is something else", async () => {
  const gone = await runProgram(["explain", "-d", "edge", "-s", "127.0.0.1:1", "tenant=a"]);
  const other = await runProgram(["explain", "-d", "edge", "-s", `127.0.0.1:${app.httpPort}/livez?`, "tenant=a"]);
  expect([gone.exitCode, other.exitCode]).toEqual([2, 2]);
  expect(gone.err).toMatch(/^can't ask http:\/\/127\.0\.0\.1:1\/explain: /);
});
