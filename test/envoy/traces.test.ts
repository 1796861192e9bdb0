// One thread through an incident: the trace id in Envoy's access log leads to Envoy's span, to Headgate's below it, to the decision log,
// and from there to the explanation. docs/inspect.md walks the same way.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { typedText } from "../../src/engine/domain/entry-text.ts";
import { OtlpReceiver, type ReceivedSpan } from "../support/otlp-receiver.ts";
import { runProgram } from "../support/run-program.ts";
import { cluster, fromHeader, listener, route } from "./support/bootstrap.ts";
import { Rig, testDirectory } from "./support/rig.ts";

const RULES = `domain: edge
descriptors:
  - { key: tenant, rate_limits: [{ name: hourly, requests_per_unit: 2, unit: hour, algorithm: fixed_window }] }
`;
const ASK_SPAN = "async envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit egress";

interface Decision {
  readonly trace_id: string;
  readonly span_id: string;
  readonly limit: string;
  readonly domain: string;
  readonly descriptors: readonly { readonly entries: readonly { readonly key: string; readonly value: string }[] }[];
}

let receiver: OtlpReceiver;
let rig: Rig;
let decisions: string;
beforeAll(async () => {
  receiver = await OtlpReceiver.start();
  decisions = join(testDirectory(), "decisions.jsonl");
  const port = Number(new URL(receiver.grpcUrl).port);
  rig = await Rig.start({
    rules: RULES,
    listeners: [
      listener({
        name: "traced",
        tracesTo: "collector",
        routes: [route({ prefix: "/", rateLimits: [{ actions: [fromHeader("x-tenant", "tenant")] }] })],
      }),
    ],
    clusters: () => Promise.resolve([cluster({ name: "collector", endpoints: [port], http2: true })]),
    env: { ...receiver.env("http"), DECISION_LOG: "refusals", DECISION_LOG_FILE: decisions },
  });
});

const spansOf = (traceId: unknown): ReceivedSpan[] => receiver.spans.filter((span) => span.traceId === traceId);
const named = (spans: readonly ReceivedSpan[], service: string) =>
  spans.filter(({ resource }) => resource["service.name"] === service);

test("the trace id of a refusal in the access log leads to span, decision and explanation", async () => {
  expect(await rig.caller("traced").statuses(3, "/pay", { "x-tenant": "acme" })).toEqual([200, 200, 429]);
  const line = (await rig.envoy.accessLines("/pay", 3)).at(-1);
  const traceId = line?.trace_id;
  expect(traceId).toMatch(/^[0-9a-f]{32}$/);
  expect(line).toMatchObject({ status: 429, rule: "edge/tenant#hourly" });

  await expect.poll(() => named(spansOf(traceId), "headgate").length, { timeout: 60_000 }).toBe(1);
  await expect.poll(() => named(spansOf(traceId), "envoy").length, { timeout: 60_000 }).toBeGreaterThanOrEqual(2);
  const [span] = named(spansOf(traceId), "headgate");
  expect(span?.attributes).toMatchObject({
    "rate_limit.decision": "denied",
    "rate_limit.policy": "edge/tenant#hourly",
    "rate_limit.remaining": 0,
  });
  // Envoy's span of its question to Headgate, below that of the request.
  const asking = named(spansOf(traceId), "envoy").find(({ spanId }) => spanId === span?.parentId);
  expect(asking?.name).toBe(ASK_SPAN);
  expect(span?.startUs).toBeGreaterThanOrEqual(asking?.startUs ?? Number.POSITIVE_INFINITY);

  const lines = () =>
    readFileSync(decisions, "utf8")
      .trimEnd()
      .split("\n")
      .map((text) => JSON.parse(text) as Decision);
  await expect.poll(() => lines().length, { timeout: 60_000 }).toBe(1);
  const [decision] = lines();
  expect(decision).toMatchObject({ trace_id: traceId, span_id: span?.spanId, limit: "edge/tenant#hourly" });

  const descriptor = typedText(decision?.descriptors[0]?.entries ?? []);
  const server = `127.0.0.1:${rig.headgate.httpPort}`;
  const { out } = await runProgram(["explain", "--server", server, "--domain", decision?.domain ?? "", descriptor]);
  expect(out).toContain("=> the rule 'tenant' applies");
  expect(out).toContain("hourly: 2 hits per hour");
});

test("a caller's own trace goes on through Envoy to Headgate, and its word on sampling counts", async () => {
  const id = (last: string) => `4bf92f3577b34da6a3ce929d0e0e47${last}`;
  const ask = (last: string, flags: string) =>
    rig.caller("traced").get("/pay", { "x-tenant": last, traceparent: `00-${id(last)}-00f067aa0ba902b7-${flags}` });
  await ask("00", "00");
  await ask("01", "01");
  await expect.poll(() => named(spansOf(id("01")), "headgate").length, { timeout: 60_000 }).toBe(1);
  expect(spansOf(id("00"))).toEqual([]);
});
