// `headgate mirror` between real Headgates and targets that fail: what callers get, what is found, what is bounded.

import { once } from "node:events";
import { existsSync } from "node:fs";
import http from "node:http";
import { connect, constants, createServer } from "node:http2";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { beforeAll, describe, expect, test } from "vitest";
import type { MirrorReport } from "../../src/tools/mirror/report.ts";
import type { runMirror } from "../../src/tools/mirror/run-mirror.ts";
import { endWithTest } from "../support/ends.ts";
import { callRaw, checkHealth, openRawClient, startTestServer } from "../support/grpc-test-server.ts";
import { listen } from "../support/listen.ts";
import { shouldRateLimit } from "../support/load-proto.ts";
import { answerBytes, callBytes, NOBODY, requestBytes, startMirror } from "../support/mirror-rig.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { askOnce, openClient, type Reply, startTestApp, type TestApp } from "../support/test-app.ts";

type RunningMirror = Awaited<ReturnType<typeof runMirror>>;

const OK = answerBytes({ overall_code: "OK" });

const rulesWith = (perUser: number) => `
domain: edge
descriptors:
  - key: user
    rate_limit: { name: per-user, requests_per_unit: ${perUser}, unit: year }
  - key: plan
    rate_limit: { name: per-plan, requests_per_unit: 2, unit: year }
`;

function hit(mirror: RunningMirror, entries: Readonly<Record<string, string>>): Promise<Reply> {
  const client = openClient(`127.0.0.1:${mirror.grpcPort}`);
  const descriptors = [{ entries: Object.entries(entries).map(([key, value]) => ({ key, value })) }];
  return askOnce(client, { domain: "edge", descriptors });
}

const settledCalls = ({ calls }: MirrorReport) =>
  calls.same + calls.different + Object.values(calls.not_compared).reduce((sum, count) => sum + count, 0);

describe("between two Headgates that differ in one rule", () => {
  let a: TestApp;
  let b: TestApp;
  beforeAll(async () => {
    [a, b] = await Promise.all([startTestApp(rulesWith(2)), startTestApp(rulesWith(3))]);
  });

  test("answers from the one named, and names the rule that differs and no other", async () => {
    const mirror = await startMirror(`127.0.0.1:${a.grpcPort}`, `127.0.0.1:${b.grpcPort}`);
    const codes = [];
    for (let i = 0; i < 3; i++) codes.push((await hit(mirror, { user: "secret-value" })).overall_code);
    for (let i = 0; i < 3; i++) codes.push((await hit(mirror, { plan: "gold" })).overall_code);
    expect(codes).toEqual(["OK", "OK", "OVER_LIMIT", "OK", "OK", "OVER_LIMIT"]);
    await expect.poll(() => settledCalls(mirror.report())).toBe(6);
    const report = mirror.report();
    expect(report.calls).toMatchObject({ relayed: 6, same: 3, different: 3, not_compared: {} });
    expect(report.rules).toHaveLength(1);
    expect(report.rules[0]).toMatchObject({
      domain: "edge",
      keys: "user",
      answering_limit: "per-user 2/YEAR",
      compared_limit: "per-user 3/YEAR",
      calls: 3,
      over_only_answering: 1,
      over_only_compared: 0,
    });
    expect(report.first_differences.at(-1)?.differences).toContainEqual({
      field: "overall_code",
      answering: "OVER_LIMIT",
      compared: "OK",
    });
    expect(JSON.stringify(report)).not.toContain("secret-value");
  });

  test.each(["listen", "http"] as const)("leaves no recording behind if the port of --%s is taken", async (name) => {
    const file = join(temporaryFolder("headgate-recording"), "calls.jsonl");
    const port = name === "listen" ? a.grpcPort : a.httpPort;
    const options = { record: file, [name]: { host: "127.0.0.1", port } };
    await expect(startMirror(`127.0.0.1:${a.grpcPort}`, undefined, options)).rejects.toThrow(/address is in use/);
    expect(existsSync(file)).toBe(false);
  });

  test("shows report and metrics over HTTP", async () => {
    const httpHosts = ["mirror.example.com"];
    const mirror = await startMirror(`127.0.0.1:${a.grpcPort}`, `127.0.0.1:${b.grpcPort}`, { httpHosts });
    await hit(mirror, { user: "http" });
    await expect.poll(() => settledCalls(mirror.report())).toBe(1);
    const get = (path: string, headers = {}) => fetch(`http://127.0.0.1:${mirror.httpPort}${path}`, { headers });
    expect(await (await get("/report")).text()).toContain("edge: user  [per-user 2/YEAR, compared: per-user 3/YEAR]");
    expect(await (await get("/report?format=json")).json()).toMatchObject({ calls: { different: 1 } });
    expect(await (await get("/report", { accept: "application/json" })).json()).toMatchObject({
      calls: { relayed: 1 },
    });
    const metrics = await (await get("/metrics")).text();
    expect(metrics).toContain('headgate_mirror_compared_total{result="different"} 1');
    expect(metrics).toContain(
      'headgate_mirror_rule_differences_total{domain="edge",keys="user",limit="per-user 2/YEAR"} 1',
    );
    expect((await get("/healthcheck")).status).toBe(200);
    expect((await get("/nowhere")).status).toBe(404);
    // Under another name a page of another site may have asked.
    const statuses = ["mirror.example.com", "evil.example"].map(async (host) => {
      const request = http.get({ host: "127.0.0.1", port: mirror.httpPort, path: "/report", headers: { host } });
      const [response] = (await once(request, "response")) as [http.IncomingMessage];
      response.resume();
      return response.statusCode;
    });
    expect(await Promise.all(statuses)).toEqual([200, 403]);
  });
});

// Promise(mirror): Behind the mirror callers get the answering service's message as it is, or its error with its text.
test("what passes through: the answer's very bytes, fields that no definition knows included, and gRPC errors with their text", async () => {
  const odd = Buffer.concat([answerBytes({ overall_code: "OK" }), Buffer.from([0xfa, 0x3f, 3, 1, 2, 3])]);
  const target = await startTestServer({
    handle: (message, _deadlineUs, reply) => {
      if (message.length > 40) reply.fail(9, "no such thing: 50 % off");
      else reply.ok(odd);
    },
  });
  const mirror = await startMirror(target.target, target.target);
  const client = openRawClient(mirror.grpcPort);
  const answer = await callBytes(client, requestBytes({ a: "b" }));
  expect([answer.code, answer.message]).toEqual([status.OK, odd]);
  const failed = await callBytes(client, requestBytes({ a: "b".repeat(50) }));
  expect([failed.code, failed.details]).toEqual([status.FAILED_PRECONDITION, "no such thing: 50 % off"]);
  await expect.poll(() => mirror.report().calls.same).toBe(2);
});

describe("other calls", () => {
  test("of health are answered by the mirror itself, all others are refused", async () => {
    const target = await startTestServer({ handle: (_message, _deadlineUs, reply) => reply.ok(OK) });
    const mirror = await startMirror(target.target, undefined);
    const check = (service: string) => checkHealth(`127.0.0.1:${mirror.grpcPort}`, service);
    expect(await check("ratelimit")).toBe("SERVING");
    expect(await check("nobody")).toBe(status.NOT_FOUND);
    const client = openRawClient(mirror.grpcPort);
    expect((await callRaw(client, Buffer.alloc(0), { path: "/no.such.Service/Method" })).code).toBe(
      status.UNIMPLEMENTED,
    );
    expect(mirror.report().calls.relayed).toBe(0);
  });
});

test("loses no call when the answering target asks its connections to end again and again", async () => {
  const target = await startTestServer(
    { handle: (_message, _deadlineUs, reply) => reply.ok(OK) },
    { maxConnectionAgeMs: 60, maxConnectionAgeGraceMs: 1_000 },
  );
  const mirror = await startMirror(target.target, undefined);
  const client = openRawClient(mirror.grpcPort);
  const codes = new Set<number>();
  const endMs = Date.now() + 800;
  while (Date.now() < endMs) {
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => callBytes(client, requestBytes({ a: "b" }))));
    for (const { code } of outcomes) codes.add(code);
  }
  expect([...codes]).toEqual([status.OK]);
});

describe("the compared target in trouble is unseen by callers", () => {
  let app: TestApp;
  beforeAll(async () => {
    app = await startTestApp(rulesWith(1_000_000));
  });

  /** Latencies of calls one after another, in milliseconds, sorted; every answer must be OK. */
  async function latencies(port: number, count: number): Promise<number[]> {
    const client = openRawClient(port);
    const found: number[] = [];
    for (let i = 0; i < count; i++) {
      const started = performance.now();
      expect((await callBytes(client, requestBytes({ user: "latency" }))).code).toBe(status.OK);
      found.push(performance.now() - started);
    }
    client.close();
    return found.sort((a, b) => a - b);
  }

  test.each<[name: string, start: () => Promise<string>, compareTimeout: number, reason: string]>([
    // A busy machine says late that nobody listens.
    ["down", async () => NOBODY, 10_000, "compared_unreachable"],
    ["hanging", async () => (await startTestServer({ handle: () => undefined })).target, 200, "compared_too_slow"],
  ])("when it is %s", async (_, start, compareTimeout, reason) => {
    const compareWith = await start();
    const alone = await startMirror(`127.0.0.1:${app.grpcPort}`, `127.0.0.1:${app.grpcPort}`);
    const mirror = await startMirror(`127.0.0.1:${app.grpcPort}`, compareWith, { compareTimeout });
    await latencies(alone.grpcPort, 50);
    await latencies(mirror.grpcPort, 50);
    const good = await latencies(alone.grpcPort, 150);
    const troubled = await latencies(mirror.grpcPort, 150);
    // Its trouble lasts 200 ms and more; half of the callers, and nearly all of them, must not notice.
    expect(troubled[75]).toBeLessThan((good[75] ?? 0) * 3 + 50);
    expect(troubled[142]).toBeLessThan((good[142] ?? 0) * 3 + 100);
    await expect.poll(() => settledCalls(mirror.report())).toBe(200);
    const { calls } = mirror.report();
    expect(calls.not_compared).toEqual({ [reason]: 200 });
    expect(calls.not_answered).toEqual({});
  });

  test.each([
    { what: "requests", memoryMax: 200, code: status.RESOURCE_EXHAUSTED },
    { what: "answers", memoryMax: 450, code: status.UNAVAILABLE },
  ])("holds at most so much of $what on their way, a piece of one byte as what it takes", async (bound) => {
    // Both have fewer than 100 bytes, in one piece.
    const tiny = await startMirror(`127.0.0.1:${app.grpcPort}`, NOBODY, { memoryMax: bound.memoryMax });
    const client = openRawClient(tiny.grpcPort);
    expect((await callBytes(client, requestBytes({ user: "tiny" }))).code).toBe(bound.code);
    const larger = await startMirror(`127.0.0.1:${app.grpcPort}`, NOBODY, { memoryMax: 2_000 });
    const other = openRawClient(larger.grpcPort);
    for (let i = 0; i < 20; i++) expect((await callBytes(other, requestBytes({ user: "tiny" }))).code).toBe(status.OK);
  });
});

describe("the answering target in trouble", () => {
  test("is UNAVAILABLE while it is down, and found again by itself", async () => {
    const first = await startTestApp(rulesWith(10));
    const port = first.grpcPort;
    const mirror = await startMirror(`127.0.0.1:${port}`, NOBODY);
    const client = openRawClient(mirror.grpcPort);
    expect((await callBytes(client, requestBytes({ user: "a" }))).code).toBe(status.OK);
    await first.stop();
    expect((await callBytes(client, requestBytes({ user: "a" }))).code).toBe(status.UNAVAILABLE);
    await startTestApp(rulesWith(10), { GRPC_PORT: String(port) });
    // The mirror tries again after a pause.
    await expect.poll(async () => (await callBytes(client, requestBytes({ user: "a" }))).code).toBe(status.OK);
    expect(mirror.report().calls.not_answered).toHaveProperty("unreachable");
  });

  /** A mirror before a target that never answers, which counts the calls that came and those that are gone. */
  async function startHanging() {
    const calls = { came: 0, gone: 0 };
    const server = createServer((_request, response) => {
      calls.came++;
      response.stream.on("close", () => calls.gone++);
    });
    const port = await listen(server);
    return { calls, mirror: await startMirror(`127.0.0.1:${port}`, `127.0.0.1:${port}`) };
  }

  const LEFT = { not_answered: { cancelled: 1 }, not_compared: { answering_cancelled: 1 } };

  test("keeps its caller waiting no longer than the caller wants, and lets go of the call", async () => {
    const { calls, mirror } = await startHanging();
    const client = openRawClient(mirror.grpcPort);
    const answer = await callBytes(client, requestBytes({ user: "a" }), { deadlineMs: 100 });
    expect(answer.code).toBe(status.DEADLINE_EXCEEDED);
    await expect.poll(() => calls.gone).toBe(2);
    expect(mirror.report().calls).toMatchObject(LEFT);
  });

  test("is let go when its caller cancels the call", async () => {
    const { calls, mirror } = await startHanging();
    const session = connect(`http://127.0.0.1:${mirror.grpcPort}`);
    endWithTest(() => session.destroy());
    const headers = { ":method": "POST", ":path": shouldRateLimit().path, "content-type": "application/grpc" };
    const stream = session.request({ ...headers, te: "trailers" });
    stream.end(Buffer.alloc(5));
    await expect.poll(() => calls.came).toBe(2);
    stream.close(constants.NGHTTP2_CANCEL);
    await expect.poll(() => calls.gone).toBe(2);
    expect(mirror.report().calls).toMatchObject(LEFT);
  });

  test("is UNAVAILABLE if what it sends is no answer of gRPC", async () => {
    const port = await listen(createServer((_request, response) => response.writeHead(503).end("<html>")));
    const mirror = await startMirror(`127.0.0.1:${port}`, undefined);
    const answer = await callBytes(openRawClient(mirror.grpcPort), requestBytes({ user: "a" }));
    expect([answer.code, answer.details]).toEqual([status.UNAVAILABLE, `127.0.0.1:${port} gave no answer of gRPC`]);
  });
});
