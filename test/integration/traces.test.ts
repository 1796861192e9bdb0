// Spans of calls at a collector: on both transports, over both protocols, with the caller's trace, what was decided, and its times.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { beforeAll, describe, expect, test } from "vitest";
import { BUDGET_RULES, callBudgets } from "../support/budgets.ts";
import { Authority } from "../support/certificates.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { OtlpReceiver, type ReceivedSpan } from "../support/otlp-receiver.ts";
import { RedisServer } from "../support/redis-server.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { type AskedRequest, askOnce, openClient, type Reply, startTestApp, type TestApp } from "../support/test-app.ts";

const RULES = `domain: edge
descriptors:
  - { key: user, rate_limit: { name: hourly, requests_per_unit: 2, unit: hour, algorithm: fixed_window } }
  - { key: login, on_store_failure: error, rate_limit: { requests_per_unit: 2, unit: hour } }
  - { key: seen, shadow_mode: true, rate_limit: { requests_per_unit: 1, unit: hour } }
`;
const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const CALLER_ID = "b7ad6b7169203331";
const SAMPLED = `00-${TRACE_ID}-${CALLER_ID}-01`;
const METHOD = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/** Time for a call to reach the store on a busy machine. */
const LATE_MS = 3_000;
const SERVER = 2;
const ERROR = 2;

let receiver: OtlpReceiver;
beforeAll(async () => {
  receiver = await OtlpReceiver.start();
});

const about = (key: string, value = "ann"): AskedRequest => ({
  domain: "edge",
  descriptors: [{ entries: [{ key, value }] }],
});

interface Asked {
  readonly traceparents?: readonly string[];
  readonly deadlineMs?: number;
}

/** Asks once, as Envoy does for a request that is traced: resolves to the answer or to the error. */
function ask(port: number, request: AskedRequest, asked: Asked = {}): Promise<Reply | ServiceError> {
  const { traceparents = [], deadlineMs = 20_000 } = asked;
  const reply = askOnce(openClient(`127.0.0.1:${port}`), request, deadlineMs, traceparents);
  return reply.catch((error: ServiceError) => error);
}

/** The spans that come because of `work`, once there are `count` of them. */
async function spansOf(count: number, work: () => Promise<unknown>): Promise<ReceivedSpan[]> {
  const before = receiver.spans.length;
  await work();
  await expect.poll(() => receiver.spans.length, { timeout: 60_000 }).toBeGreaterThanOrEqual(before + count);
  return receiver.spans.slice(before);
}

describe.each(["fast-lane", "grpc-js"])("on the transport %s", (transport) => {
  describe.each(["http", "grpc"] as const)("over %s", (protocol) => {
    // Promise(traces): A call has a span below its caller's, with decision, limit and what is left, over HTTP and gRPC.
    test("a call has a span below its caller's, which says what was decided by which rule", async () => {
      const headers = { OTEL_EXPORTER_OTLP_HEADERS: "x-a=1%2C2,x-b=traces" };
      const app = await startTestApp(RULES, { ...receiver.env(protocol), ...headers, GRPC_TRANSPORT: transport });
      const spans = await spansOf(3, async () => {
        for (let i = 0; i < 3; i++) await ask(app.grpcPort, about("user"), { traceparents: [SAMPLED] });
      });
      await app.stop();
      expect(spans).toHaveLength(3);
      for (const span of spans) {
        expect(span).toMatchObject({ name: METHOD, kind: SERVER, traceId: TRACE_ID, parentId: CALLER_ID });
        expect(span.headers).toMatchObject({ "x-a": "1,2", "x-b": "traces" });
        expect(span.status.code).toBe(0);
        expect(span.attributes).toMatchObject({
          "rpc.system.name": "grpc",
          "rpc.method": METHOD,
          "rpc.status_code": "OK",
          "rate_limit.domain": "edge",
          "rate_limit.policy": "edge/user#hourly",
          "headgate.source": "store",
        });
        expect(JSON.stringify(span)).not.toContain("ann");
      }
      const decided = spans.map(({ attributes }) => [
        attributes["rate_limit.decision"],
        attributes["rate_limit.remaining"],
      ]);
      expect(decided).toEqual([
        ["allowed", 1],
        ["allowed", 0],
        ["denied", 0],
      ]);
      expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(3);
    });
  });

  test("a call whose caller's span is not sampled has none, and one without a traced caller begins a trace", async () => {
    const app = await startTestApp(RULES, { ...receiver.env("http"), GRPC_TRANSPORT: transport });
    const spans = await spansOf(4, async () => {
      await ask(app.grpcPort, about("user"), { traceparents: [`00-${TRACE_ID}-${CALLER_ID}-00`] });
      await ask(app.grpcPort, about("user"));
      // What W3C Trace Context says to ignore.
      await ask(app.grpcPort, about("user"), { traceparents: [`ff-${TRACE_ID}-${CALLER_ID}-01`] });
      await ask(app.grpcPort, about("user"), { traceparents: [`00-${"0".repeat(32)}-${CALLER_ID}-01`] });
      await ask(app.grpcPort, about("user"), { traceparents: [SAMPLED, SAMPLED] });
    });
    await app.stop();
    expect(spans.map(({ parentId }) => parentId)).toEqual(["", "", "", ""]);
    expect(spans.map(({ traceId }) => traceId)).not.toContain(TRACE_ID);
  });

  describe("with Redis behind a slow network", () => {
    let redis: RedisServer;
    let proxy: FaultProxy;
    beforeAll(async () => {
      redis = await RedisServer.start();
      proxy = await FaultProxy.start(redis.port);
    });
    const start = (more: Readonly<Record<string, string>> = {}) =>
      startTestApp(RULES, {
        ...receiver.env("http"),
        GRPC_TRANSPORT: transport,
        REDIS_URL: `redis://127.0.0.1:${proxy.port}`,
        STORE_DEADLINE: "30s",
        STORE_PATIENCE: "30s",
        ...more,
      });

    // Promise(traces): Every call that was read has its span ended, with the call's times, even if late or given up.
    test("the span takes as long as the call, wherever the time goes", async () => {
      const app = await start();
      proxy.begin({ kind: "delay", ms: 150, jitterMs: 0 });
      const beganUs = performanceUs();
      const [span] = await spansOf(1, () => ask(app.grpcPort, about("user", transport)));
      const endedUs = performanceUs();
      proxy.end();
      await app.stop();
      const { startUs = 0, endUs = 0 } = span ?? {};
      // Both ways are delayed.
      expect(endUs - startUs).toBeGreaterThanOrEqual(300_000);
      expect(startUs).toBeGreaterThanOrEqual(beganUs);
      expect(endUs).toBeLessThanOrEqual(endedUs);
    });

    // Promise(traces): Every call that was read has its span ended, with the call's times, even if late or given up.
    test("a call whose deadline passes meanwhile ends as late, and one that is given up as cancelled", async () => {
      const app = await start();
      proxy.begin({ kind: "black hole" });
      const [late] = await spansOf(1, async () => {
        const asked = ask(app.grpcPort, about("user", transport), { traceparents: [SAMPLED], deadlineMs: LATE_MS });
        await untilInFlight(app);
        // The deadline here is at most as far ahead as the caller's was when it asked.
        const passed = sleep(LATE_MS);
        expect(((await asked) as ServiceError).code).toBe(status.DEADLINE_EXCEEDED);
        await passed;
        proxy.end();
      });
      proxy.begin({ kind: "black hole" });
      const [given] = await spansOf(1, async () => {
        await giveUp(app, about("user", transport));
        proxy.end();
      });
      await app.stop();
      expect(late).toMatchObject({ traceId: TRACE_ID, status: { code: ERROR } });
      expect(late?.attributes).toMatchObject({
        "rpc.status_code": "DEADLINE_EXCEEDED",
        "error.type": "DEADLINE_EXCEEDED",
      });
      expect(given?.attributes).toMatchObject({ "rpc.status_code": "CANCELLED" });
      expect(given?.status.code).toBe(0);
    });

    test("a call that the store does not answer says why, and which policy decided", async () => {
      const app = await start({ STORE_DEADLINE: "20ms", STORE_PATIENCE: "20ms" });
      proxy.begin({ kind: "black hole" });
      const [passed, failed] = await spansOf(2, async () => {
        await ask(app.grpcPort, about("user", transport));
        const outcome = (await ask(app.grpcPort, about("login"))) as ServiceError;
        expect(outcome.code).toBe(status.UNAVAILABLE);
      });
      proxy.end();
      await app.stop();
      expect(passed?.attributes).toMatchObject({
        "rate_limit.decision": "allowed",
        "headgate.degraded": "allow",
        "headgate.degraded_reason": expect.stringMatching(/^STORE_/),
      });
      expect(failed).toMatchObject({
        status: { code: ERROR, message: expect.stringMatching(/^SERVICE_STORE_FAILED: /) },
      });
      expect(failed?.attributes).toMatchObject({ "rpc.status_code": "UNAVAILABLE", "error.type": "UNAVAILABLE" });
      expect(failed?.attributes).not.toHaveProperty("rate_limit.decision");
    });
  });
});

test("the decision log names the span, and the caller's trace where no span is recorded", async () => {
  const file = join(temporaryFolder("headgate-traced-decisions"), "decisions.jsonl");
  const log = { DECISION_LOG: "all", DECISION_LOG_FILE: file };
  const app = await startTestApp(RULES, { ...receiver.env("http"), ...log });
  const spans = await spansOf(2, async () => {
    await ask(app.grpcPort, about("user"), { traceparents: [SAMPLED] });
    await ask(app.grpcPort, about("user"), { traceparents: [`00-${TRACE_ID}-${CALLER_ID}-00`] });
    await ask(app.grpcPort, about("user"));
  });
  await app.stop();
  const lines = readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as object);
  expect(lines).toMatchObject([
    { trace_id: TRACE_ID, span_id: spans[0]?.spanId },
    { trace_id: TRACE_ID },
    { trace_id: spans[1]?.traceId, span_id: spans[1]?.spanId },
  ]);
  expect(lines[1]).not.toHaveProperty("span_id");
});

test("calls that shadow_mode lets pass and calls that can't be read are marked", async () => {
  const app = await startTestApp(RULES, { ...receiver.env("http") });
  const [, shadowed, unreadable] = await spansOf(3, async () => {
    for (let i = 0; i < 2; i++) await ask(app.grpcPort, about("seen"));
    await ask(app.grpcPort, { domain: "edge" }, { traceparents: [SAMPLED] });
  });
  await app.stop();
  expect(shadowed?.attributes).toMatchObject({ "rate_limit.decision": "allowed", "headgate.shadowed": true });
  expect(unreadable).toMatchObject({ traceId: TRACE_ID, status: { code: 0 } });
  expect(unreadable?.attributes).toMatchObject({ "rpc.status_code": "INVALID_ARGUMENT" });
  expect(unreadable?.attributes).not.toHaveProperty("rate_limit.decision");
});

test("reservations and settlements have spans of their own names", async () => {
  const app = await startTestApp(BUDGET_RULES, receiver.env("http"));
  const budgets = callBudgets(`127.0.0.1:${app.grpcPort}`);
  const spans = await spansOf(2, async () => {
    await budgets.reserve({ entries: { tenant: "a" }, id: "r1", number: 60 });
    await budgets.settle({ entries: { tenant: "a" }, id: "r1", number: 10 });
  });
  await app.stop();
  expect(spans.map(({ name, attributes }) => [name, attributes["rate_limit.remaining"]])).toEqual([
    ["headgate.v1.Budgets/Reserve", 40],
    ["headgate.v1.Budgets/Settle", 90],
  ]);
});

describe.each(["http", "grpc"] as const)("a collector behind TLS, over %s", (protocol) => {
  const authority = new Authority();
  const server = authority.issue("collector");
  const caller = authority.issue("headgate");
  const CERTIFICATES = {
    OTEL_EXPORTER_OTLP_CERTIFICATE: authority.certFile,
    OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: caller.certFile,
    OTEL_EXPORTER_OTLP_CLIENT_KEY: caller.keyFile,
  };
  const { OTEL_EXPORTER_OTLP_CERTIFICATE, ...own } = CERTIFICATES;

  test.each([
    { name: "accepts spans of callers with a known certificate", env: CERTIFICATES, sent: 1 },
    { name: "gets no spans from callers that do not trust its authority", env: own, sent: 0 },
    { name: "accepts none from callers without a certificate", env: { OTEL_EXPORTER_OTLP_CERTIFICATE }, sent: 0 },
  ])("$name", async ({ env, sent }) => {
    const secured = await OtlpReceiver.start("good", { ca: authority.cert, cert: server.cert, key: server.key });
    const bounds = { OTEL_EXPORTER_OTLP_TIMEOUT: "2000" };
    const app = await startTestApp(RULES, { ...secured.env(protocol), ...bounds, ...env });
    await ask(app.grpcPort, about("user"));
    const counts = async () => (await app.http("/metrics")).text();
    const result = sent === 1 ? "sent" : "failed";
    await expect.poll(counts, { timeout: 60_000 }).toContain(`headgate_spans_total{result="${result}"} 1`);
    await app.stop();
    expect(secured.spans).toHaveLength(sent);
    await secured.stop();
  });
});

test("calls in JSON have spans too, with the status of HTTP", async () => {
  const app = await startTestApp(RULES, receiver.env("http"));
  const body = JSON.stringify(about("user"));
  const spans = await spansOf(3, async () => {
    for (let i = 0; i < 3; i++) await app.http("/json", { method: "POST", body, headers: { traceparent: SAMPLED } });
  });
  await app.stop();
  expect(spans.map(({ attributes }) => attributes["http.response.status_code"])).toEqual([200, 200, 429]);
  expect(spans[2]).toMatchObject({ name: "POST /json", traceId: TRACE_ID, parentId: CALLER_ID });
  expect(spans[2]?.attributes).toMatchObject({ "http.route": "/json", "rate_limit.decision": "denied" });
});

describe("settings", () => {
  test.each(["http", "grpc"] as const)("invalid certificates end the start over %s", async (protocol) => {
    const files = {
      OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: import.meta.filename,
      OTEL_EXPORTER_OTLP_CLIENT_KEY: import.meta.filename,
    };
    const env = { ...receiver.env(protocol), OTEL_EXPORTER_OTLP_ENDPOINT: "https://127.0.0.1:1", ...files };
    await expect(startTestApp(RULES, env)).rejects.toThrow(
      /^OTEL_EXPORTER_OTLP_CERTIFICATE, .*: expected certificates/,
    );
  });

  test("TRACING_SERVICE_*, and OpenTelemetry's over them, name the service", async () => {
    const named = {
      TRACING_SERVICE_NAME: "limits",
      TRACING_SERVICE_NAMESPACE: "edge",
      TRACING_SERVICE_INSTANCE_ID: "one",
    };
    const resources: unknown[] = [];
    const otel = {
      OTEL_SERVICE_NAME: "gate",
      OTEL_RESOURCE_ATTRIBUTES: "service.name=x,zone=a%2Cb,service.instance.id=two",
    };
    for (const env of [{}, named, { ...named, ...otel }]) {
      const app = await startTestApp(RULES, { ...receiver.env("http"), ...env });
      const [span] = await spansOf(1, () => ask(app.grpcPort, about("user")));
      await app.stop();
      resources.push(span?.resource);
    }
    expect(resources).toMatchObject([
      {
        "service.name": "headgate",
        "service.version": "0.0.0-test",
        "service.instance.id": expect.stringMatching(/^[0-9a-f-]{36}$/),
      },
      { "service.name": "limits", "service.namespace": "edge", "service.instance.id": "one" },
      { "service.name": "gate", "service.namespace": "edge", "service.instance.id": "two", zone: "a,b" },
    ]);
  });

  test.each([
    { name: "TRACING_SAMPLING_RATE=0", env: { TRACING_SAMPLING_RATE: "0" }, spans: [SAMPLED] },
    {
      name: "OTEL_TRACES_SAMPLER_ARG=1",
      env: { OTEL_TRACES_SAMPLER_ARG: "1", TRACING_SAMPLING_RATE: "0" },
      spans: [SAMPLED, "none"],
    },
  ])("$name decides which calls have spans", async ({ env, spans }) => {
    const app = await startTestApp(RULES, { ...receiver.env("http"), ...env });
    const before = receiver.spans.length;
    await ask(app.grpcPort, about("user"), { traceparents: [SAMPLED] });
    await ask(app.grpcPort, about("user"), { traceparents: [`00-${TRACE_ID}-${CALLER_ID}-00`] });
    await ask(app.grpcPort, about("user"));
    // All that there is goes out at the end.
    await app.stop();
    expect(receiver.spans.length - before).toBe(spans.length);
  });
});

/** Asks, and gives up once the call waits for the store. Resolves when the service has heard of it. */
async function giveUp(app: TestApp, request: AskedRequest): Promise<void> {
  const client = openClient(`127.0.0.1:${app.grpcPort}`) as unknown as {
    shouldRateLimit(
      request: AskedRequest,
      metadata: Metadata,
      options: object,
      callback: (error: ServiceError | null) => void,
    ): { cancel(): void };
  };
  const unsampled = new Metadata();
  unsampled.set("traceparent", `00-${TRACE_ID}-${CALLER_ID}-00`);
  let cancel = (): void => undefined;
  const outcome = new Promise<ServiceError | null>((resolve) => {
    const call = client.shouldRateLimit(request, new Metadata(), {}, resolve);
    cancel = () => call.cancel();
  });
  await untilInFlight(app);
  cancel();
  expect((await outcome)?.code).toBe(status.CANCELLED);
  // On the same connection, so that it is read after the cancellation; no rule sends it to the store.
  const next = new Promise<ServiceError | null>((resolve) => {
    client.shouldRateLimit(about("unknown"), unsampled, {}, resolve);
  });
  expect(await next).toBeNull();
}

/** Resolves once a call waits for the store. */
async function untilInFlight(app: TestApp): Promise<void> {
  const metrics = async () => (await app.http("/metrics")).text();
  await expect.poll(metrics, { timeout: 60_000 }).toMatch(/^headgate_calls_in_flight 1$/m);
}

function performanceUs(): number {
  return Math.floor((performance.timeOrigin + performance.now()) * 1_000);
}
