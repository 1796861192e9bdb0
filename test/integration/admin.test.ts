// The HTTP port over real sockets: every path, bad input, faults inside, the end of the server.

import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { RequestError } from "../../src/base/errors.ts";
import { HealthState } from "../../src/base/health.ts";
import { AdminWatch } from "../../src/operate/http/admin-watch.ts";
import type { HttpAnswer } from "../../src/operate/http/page-server.ts";
import { type AdminSources, openAdminServer } from "../../src/operate/http/server.ts";
import { Tokens } from "../../src/operate/http/tokens.ts";
import { createLogger } from "../../src/operate/telemetry/logger.ts";
import { RateLimitedLog } from "../../src/operate/telemetry/rate-limited-log.ts";
import { endWithTest } from "../support/ends.ts";
import { ManualClock } from "../support/manual-clock.ts";

const SILENT = createLogger({ level: "silent", format: "json", clock: new ManualClock(), secrets: [] });

const NO_LIMITS: AdminSources["limits"] = {
  set: async () => ({ limits: [], processes: undefined }),
  list: async () => ({ limits: [], next: undefined }),
  of: () => undefined,
  counts: async () => ({
    inForce: {},
    last: undefined,
    rules: new Set<string>(),
    changes: 0,
    untilUs: Number.POSITIVE_INFINITY,
  }),
};

async function startServer(overrides: Partial<AdminSources> = {}, bodyBytesMax = 1_000) {
  const health = new HealthState();
  const errors: unknown[] = [];
  const server = openAdminServer(
    { host: "127.0.0.1", port: 0 },
    { metricsPath: "/metrics", bodyBytesMax, hosts: ["*.example.com"] },
    {
      answerJson: async (readBody) => answer(200, `got ${(await readBody()).toString()}`),
      health,
      ruleRows: async () => ({ domains: [], domains_left_out: 0, limits: 0, found: 0, rows: [] }),
      metricsText: async () =>
        (function* () {
          yield "up 1\n";
          yield "down 0\n";
        })(),
      rules: {
        current: undefined,
        status: () => ({ loads: 0, failures: 0, loadedAtUs: undefined, lastError: undefined }),
      },
      config: async () => ({ settings: { PORT: "8080" } }),
      explain: (question) => question,
      buckets: { peek: async () => [], reset: async () => [] },
      state: async () => ({ status: "well" }),
      history: async () => null,
      top: undefined,
      limits: NO_LIMITS,
      tokens: new Tokens({ adminToken: undefined, adminTokenFile: undefined }, new ManualClock(), SILENT),
      watch: new AdminWatch(SILENT, new RateLimitedLog(SILENT, new ManualClock())),
      onError: (error) => errors.push(error),
      ...overrides,
    },
  );
  endWithTest(() => server.close(0));
  const port = await server.listen();
  return { server, port, health, errors, url: `http://127.0.0.1:${port}` };
}

function answer(status: number, body: string, headers: Record<string, string> = {}): HttpAnswer {
  return { status, headers: { "content-type": "application/json", ...headers }, body };
}

/** A promise and the function that resolves it. */
function deferred<T>() {
  const holder: { resolve: (value: T) => void } = { resolve: () => undefined };
  const promise = new Promise<T>((resolve) => {
    holder.resolve = resolve;
  });
  return { promise, resolve: (value: T) => holder.resolve(value) };
}

async function get(url: string, init?: RequestInit) {
  const response = await fetch(url, init);
  return { status: response.status, body: await response.text(), headers: response.headers };
}

describe("/json", () => {
  test.each(["POST", "PUT", "DELETE"])("passes the body of a %s on and the answer back", async (method) => {
    const { url } = await startServer({
      answerJson: async (readBody) => answer(429, (await readBody()).toString().toUpperCase(), { "retry-after": "3" }),
    });
    const reply = await get(`${url}/json`, { method, body: "abc" });
    expect([reply.status, reply.body, reply.headers.get("retry-after")]).toEqual([429, "ABC", "3"]);
  });

  test("takes a GET with a body", async () => {
    const { port } = await startServer();
    const body = await new Promise<string>((resolve, reject) => {
      const request = httpRequest({
        port,
        host: "127.0.0.1",
        path: "/json",
        method: "GET",
        headers: { "content-length": 3 },
      });
      request.on("response", (response) => {
        response.setEncoding("utf8").on("data", resolve);
      });
      request.on("error", reject).end("abc");
    });
    expect(body).toBe("got abc");
  });

  test("takes a body of exactly the bound, and refuses one beyond it, announced or not", async () => {
    const { url } = await startServer();
    expect((await get(`${url}/json`, { method: "POST", body: "x".repeat(1_000) })).status).toBe(200);
    const announced = await get(`${url}/json`, { method: "POST", body: "x".repeat(1_001) });
    const chunks = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 11; i++) controller.enqueue(new TextEncoder().encode("x".repeat(100)));
        controller.close();
      },
    });
    const streamed = await get(`${url}/json`, { method: "POST", body: chunks, duplex: "half" } as RequestInit);
    expect([announced.status, streamed.status]).toEqual([413, 413]);
    expect(announced.body).toBe("REQUEST_TOO_LARGE: expected a body of at most 1000 bytes\n");
  });

  test("hides the cause of a fault and reports it inside", async () => {
    const fault = new Error("secret detail");
    const { url, errors } = await startServer({ answerJson: () => Promise.reject(fault) });
    const reply = await get(`${url}/json`, { method: "POST", body: "{}" });
    expect([reply.status, reply.body]).toEqual([500, "Internal Server Error\n"]);
    expect(errors).toEqual([fault]);
  });
});

test("the three pages of health: well while nothing is wrong, then what is wrong, while the process is alive", async () => {
  const { url, health } = await startServer();
  const replies = () => Promise.all(["/healthcheck", "/livez", "/readyz"].map((path) => get(url + path)));
  const statuses = async () => (await replies()).map(({ status, body }) => [status, body.split("\n")[0]]);
  expect(await statuses()).toEqual([
    [200, "OK"],
    [200, "OK"],
    [200, "{"],
  ]);
  health.setTrouble("rules", "no rule set has been loaded");
  expect(await statuses()).toEqual([
    [500, ""],
    [200, "OK"],
    [503, "{"],
  ]);
  expect(JSON.parse((await get(`${url}/readyz`)).body)).toMatchObject({
    status: "not ready",
    reasons: { rules: "no rule set has been loaded" },
  });
  health.setTrouble("rules", undefined);
  // Of any method, as the reference does.
  expect((await get(`${url}/healthcheck`, { method: "POST", body: "x" })).status).toBe(200);
});

describe("pages", () => {
  test("/metrics comes with its own content type, and answers HEAD without a body", async () => {
    const { url } = await startServer();
    const { body, headers } = await get(`${url}/metrics`);
    expect([body, headers.get("content-type")]).toEqual(["up 1\ndown 0\n", "text/plain; version=0.0.4; charset=utf-8"]);
    expect(await get(`${url}/metrics`, { method: "HEAD" })).toMatchObject({ status: 200, body: "" });
  });

  test("a page that fails in the middle breaks off and is reported", async () => {
    const fault = new Error("no more");
    const { url, errors } = await startServer({
      metricsText: async () =>
        (function* () {
          yield "x".repeat(100_000);
          throw fault;
        })(),
    });
    await expect(get(`${url}/metrics`)).rejects.toThrow();
    expect(errors).toEqual([fault]);
  });

  test("a page that can't begin gets 503", async () => {
    const { url } = await startServer({ metricsText: () => Promise.reject(new Error("no answer")) });
    expect(await get(`${url}/metrics`)).toMatchObject({ status: 503, body: "the metrics can't be shown: no answer\n" });
  });

  // Promise(turns): A client that asks for metrics and leaves costs nothing that lasts.
  test("a caller that stops reading a long page is no fault", async () => {
    const stopped = deferred<undefined>();
    const { port, errors, url } = await startServer({
      metricsText: async () =>
        (function* () {
          try {
            for (;;) yield "x".repeat(100_000);
          } finally {
            stopped.resolve(undefined);
          }
        })(),
    });
    const socket = connect(port, "127.0.0.1", () => socket.write("GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n"));
    socket.once("data", () => socket.destroy());
    await stopped.promise;
    expect((await get(`${url}/livez`)).status).toBe(200);
    expect(errors).toEqual([]);
  });

  test("/ lists every path", async () => {
    const { url } = await startServer();
    const { body } = await get(`${url}/`);
    const paths = body.split("\n").map((line) => line.split(" ")[0]);
    expect(paths.join(" ")).toBe(
      "/ /json /access /state /rules /history /explain /buckets/peek /buckets/reset /top /limits /healthcheck /livez /readyz /metrics /config /rlconfig ",
    );
  });

  test.each([
    { name: "a browser", accept: "text/html,application/xhtml+xml,*/*;q=0.8", type: "text/html; charset=utf-8" },
    { name: "curl", accept: "*/*", type: "text/plain; charset=utf-8" },
    { name: "a program that wants text", accept: "text/htmlx, text/plain", type: "text/plain; charset=utf-8" },
  ])("/ shows $name its own", async ({ accept, type }) => {
    const { url } = await startServer();
    const { headers } = await get(`${url}/`, { headers: { accept } });
    expect([headers.get("content-type"), headers.get("vary")]).toEqual([type, "accept"]);
  });

  test("every file that the page loads is there, and none may load anything from elsewhere", async () => {
    const { url } = await startServer();
    const { body } = await get(`${url}/`, { headers: { accept: "text/html" } });
    const named = [...body.matchAll(/(?:src|href)="(page\/[^"]+)"/g)].map(([, path = ""]) => path);
    expect(named.length).toBeGreaterThan(2);
    for (const path of named) {
      const { status, headers } = await get(`${url}/${path}`);
      expect([path, status]).toEqual([path, 200]);
      expect(headers.get("content-security-policy")).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
      );
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
    }
    expect((await get(`${url}/page/../server.ts`)).status).toBe(404);
  });

  test("an unknown path is 404, whatever its query, a wrong method 405 with the right ones", async () => {
    const { url } = await startServer();
    const wrong = await get(`${url}/config`, { method: "DELETE" });
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    const statuses = ["/jsonx", "/config/", "/livez?verbose"].map(async (path) => (await get(url + path)).status);
    expect(await Promise.all(statuses)).toEqual([404, 404, 200]);
  });
});

describe("a request to a name that anybody may have pointed here", () => {
  test.each([
    { path: "/json", isOpen: false },
    { path: "/config", isOpen: false },
    { path: "/rlconfig", isOpen: false },
    { path: "/readyz", isOpen: true },
    { path: "/metrics", isOpen: true },
  ])("to $path", async ({ path, isOpen }) => {
    const { port } = await startServer();
    const ask = (host: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const headers = { host, "x-forwarded-for": "10.0.0.7", "x-envoy-internal": "true" };
        httpRequest({ port, path, headers }, (response) => resolve(response.resume().statusCode))
          .on("error", reject)
          .end();
      });
    expect(await ask("evil.example")).toBe(isOpen ? 200 : 403);
    expect(await ask("limits.example.com")).toBe(200);
  });
});

describe("POST /explain", () => {
  const question = { domain: "edge", descriptors: [{ entries: [{ key: "a", value: "b" }, { key: "c" }] }] };

  test("passes the question on and shows the report", async () => {
    const { url } = await startServer();
    const reply = await get(`${url}/explain`, { method: "POST", body: JSON.stringify(question) });
    expect(JSON.parse(reply.body)).toEqual({
      domain: "edge",
      descriptors: [
        [
          { key: "a", value: "b" },
          { key: "c", value: "" },
        ],
      ],
    });
  });

  test("turns a request error of the explaining side into 400", async () => {
    const { url, errors } = await startServer({
      explain: () => {
        throw new RequestError("REQUEST_DOMAIN_EMPTY", "no domain");
      },
    });
    const reply = await get(`${url}/explain`, { method: "POST", body: JSON.stringify(question) });
    expect([reply.status, reply.body, errors]).toEqual([400, "REQUEST_DOMAIN_EMPTY: no domain\n", []]);
  });
});

test("a question to /explain is shorter than a call may be", async () => {
  const { url } = await startServer({}, 10_000_000);
  const reply = await get(`${url}/explain`, { method: "POST", body: " ".repeat(300_000) });
  expect(reply.status).toBe(413);
});

describe("the connection", () => {
  // Promise(input): No request can hide a header that a proxy adds behind many others.
  test.each([
    { headers: 97, status: 200 },
    { headers: 1_500, status: 431 },
  ])("a request with $headers headers of its own gets $status", async ({ headers, status }) => {
    const { port } = await startServer();
    const socket = connect(port, "127.0.0.1");
    endWithTest(() => socket.destroy());
    socket.write(`GET /livez HTTP/1.1\r\nhost: a\r\n${"a:\r\n".repeat(headers)}x-forwarded-for: 192.0.2.1\r\n\r\n`);
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  });

  test("bytes that are no HTTP get a 400 and nothing else", async () => {
    const { port, errors } = await startServer();
    const received = await new Promise<string>((resolve) => {
      let all = "";
      const socket = connect(port, "127.0.0.1", () => socket.write("\x00\x01nonsense\r\n\r\n"));
      socket.on("data", (data) => {
        all += data.toString();
      });
      socket.on("close", () => resolve(all));
    });
    expect(received.split("\r\n")[0]).toBe("HTTP/1.1 400 Bad Request");
    expect(errors).toEqual([]);
  });

  test("a caller that hangs up in the middle of its body is no fault", async () => {
    const { port, errors, url } = await startServer();
    await new Promise<void>((resolve) => {
      const socket = connect(port, "127.0.0.1", () => {
        socket.write("POST /json HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc", () => socket.destroy());
      });
      socket.on("close", () => resolve());
    });
    expect((await get(`${url}/livez`)).status).toBe(200);
    expect(errors).toEqual([]);
  });

  test("close lets an answer under way finish", async () => {
    const late = deferred<HttpAnswer>();
    const underWay = deferred<undefined>();
    const { server, url } = await startServer({
      answerJson: () => {
        underWay.resolve(undefined);
        return late.promise;
      },
    });
    const reply = get(`${url}/json`, { method: "POST", body: "{}" });
    await underWay.promise;
    const closed = server.close(10_000);
    late.resolve(answer(200, "late"));
    expect((await reply).body).toBe("late");
    await closed;
    await expect(get(`${url}/livez`)).rejects.toThrow();
  });

  test("a call tells whether its caller is still there", async () => {
    let isGone: (() => boolean) | undefined;
    const { url } = await startServer({
      answerJson: async (readBody, caller) => {
        await readBody();
        isGone = () => caller.isGone();
        return new Promise(() => undefined);
      },
    });
    const leaving = new AbortController();
    const left = fetch(`${url}/json`, { method: "POST", body: "{}", signal: leaving.signal }).catch(() => undefined);
    await expect.poll(() => isGone?.()).toBe(false);
    leaving.abort();
    await left;
    await expect.poll(() => isGone?.()).toBe(true);
  });

  test("close cuts off what takes longer than the grace", async () => {
    const { server, url } = await startServer({ answerJson: () => new Promise(() => undefined) });
    const reply = get(`${url}/json`, { method: "POST", body: "{}" }).then(
      () => "answered",
      () => "cut off",
    );
    // The request must be under way before the server closes; a second answer on another connection says that it is.
    await get(`${url}/livez`);
    await server.close(20);
    expect(await reply).toBe("cut off");
  });
});
