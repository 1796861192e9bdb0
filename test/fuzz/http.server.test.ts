// The HTTP port against everything that can be written into a socket: no answer is a fault of ours, nothing reaches where it
// should not, and the service goes on answering.

import { connect } from "node:net";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { keptInputs } from "../support/kept-inputs.ts";
import { runs, runsMs } from "../support/runs.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";
import { afterOwnTime } from "../support/turn-watch.ts";

const RULES = `domain: edge
descriptors:
  - { key: k, rate_limit: { requests_per_unit: 1000000, unit: day } }
`;
/** A connection that says nothing for so long is left; half a request is never answered. */
const SILENCE_MS = 600;
const MORE_SILENCE_MS = 100;
const TOGETHER = 24;
const STATUS_LINE = /^HTTP\/1\.1 (\d{3}) /gm;

let app: TestApp;
beforeAll(async () => {
  app = await startTestApp(RULES);
});

/** Writes the pieces one after another; resolves to what came back. */
function speak(pieces: readonly Buffer[]): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(app.httpPort, "127.0.0.1");
    const answer: Buffer[] = [];
    const end = () => {
      stopWaiting();
      socket.destroy();
      resolve(Buffer.concat(answer).toString("latin1"));
    };
    let stopWaiting = afterOwnTime(2_000, end);
    socket.on("data", (piece: Buffer) => {
      answer.push(piece);
      stopWaiting();
      stopWaiting = afterOwnTime(MORE_SILENCE_MS, end);
    });
    socket.once("connect", () => {
      for (const piece of pieces) socket.write(piece);
      stopWaiting();
      stopWaiting = afterOwnTime(SILENCE_MS, end);
    });
    socket.once("close", end);
    // The server may close while more is being written.
    socket.on("error", end);
  });
}

/** Every status line in what came back is one that callers can cause. */
function expectNoFault(answer: string): void {
  for (const [, status] of answer.matchAll(STATUS_LINE)) expect(Number(status), answer).toBeLessThan(500);
  const heads = answer.match(/^HTTP\/1\.1 [\s\S]*?\r\n\r\n/gm) ?? [];
  for (const head of heads) expect(head.toLowerCase()).not.toContain("set-cookie");
}

async function expectWell(): Promise<void> {
  expect((await app.hit({ k: "v" })).overall_code).toBe("OK");
  expect((await app.http("/livez")).status).toBe(200);
  const metrics = await (await app.http("/metrics")).text();
  expect(metrics).toMatch(/^headgate_internal_errors_total 0$/m);
  expect(metrics).toMatch(/^headgate_admin_requests_total\{action="reset",outcome="done"\} 0$/m);
}

test.each(keptInputs("http"))("$name does no harm", async ({ bytes }) => {
  expectNoFault(await speak([bytes]));
  await expectWell();
});

/** Mostly what is usual: a request that is wrong in every way is stopped at the first of them. */
const mostly = <T>(usual: fc.Arbitrary<T>, odd: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 5, arbitrary: usual }, { weight: 1, arbitrary: odd });
const word = mostly(
  fc.constantFrom("GET", "POST", "HEAD"),
  fc.oneof(
    fc.constantFrom("PUT", "OPTIONS", "TRACE", "DELETE", "get", "", "G\0T", "X".repeat(9_000)),
    fc.string({ maxLength: 8 }),
  ),
);
const path = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom(
      "/",
      "/json",
      "/explain",
      "/buckets/peek",
      "/config",
      "/rlconfig",
      "/metrics",
      "/healthcheck",
      "/readyz",
    ),
  },
  fc.constantFrom(
    "//json",
    "/./json",
    "/%00",
    "/%",
    "*",
    "",
    "/json?a=%zz#x",
    "http://e/config",
    `/${"a/".repeat(9_000)}`,
  ),
  fc.string({ unit: "binary", maxLength: 12 }).map((text) => `/${text}`),
);
const header = fc.oneof(
  fc.constantFrom(
    "host: localhost",
    "host:",
    "content-length: 5",
    "content-length: 0x5",
    "content-length: 1e9",
    "transfer-encoding: chunked",
    "transfer-encoding: gzip, chunked",
    "transfer-encoding: identity",
    "connection: close",
    "connection: upgrade",
    "upgrade: h2c",
    "expect: 100-continue",
    "authorization: Bearer x",
    "content-encoding: gzip",
    `x-long: ${"a".repeat(20_000)}`,
    ": nothing",
    " folded",
    Array.from({ length: 3_000 }, (_, i) => `x-${i}: y`).join("\r\n"),
  ),
  fc.tuple(fc.string({ maxLength: 6 }), fc.string({ maxLength: 6 })).map(([name, value]) => `${name}: ${value}`),
);
const body = fc.oneof(
  fc.constantFrom(
    "",
    "{}",
    '5\r\n{"a"\r\n0\r\n\r\n',
    "5;x=y\r\nhello\r\n",
    "ffffffff\r\n",
    "0\r\nx: y\r\n\r\n",
    "\0".repeat(50),
  ),
  fc.json({ maxDepth: 3 }),
);
const request = fc
  .record({
    method: word,
    target: path,
    version: mostly(fc.constant("HTTP/1.1"), fc.constantFrom("HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "")),
    host: mostly(fc.constant<string[]>(["host: localhost"]), fc.constant<string[]>([])),
    headers: mostly(fc.constant<string[]>([]), fc.array(header, { minLength: 1, maxLength: 3 })),
    content: body,
    hasLength: mostly(fc.constant(true), fc.constant(false)),
    end: mostly(fc.constant("\r\n"), fc.constant("\n")),
  })
  .map(({ method, target, version, host, headers, content, hasLength, end }) => {
    // Without it a body is taken for another request, a wrong one, and the answer to the first is lost with the connection.
    const length = hasLength && content !== "" ? [`content-length: ${content.length}`] : [];
    const lines = [`${method} ${target} ${version}`, ...host, ...length, ...headers];
    return Buffer.from(`${lines.join(end)}${end}${end}${content}`, "latin1");
  });
const pieces = fc.oneof(
  { weight: 3, arbitrary: request.map((whole) => [whole]) },
  // In two pieces, and followed by another on the same connection.
  fc
    .tuple(request, fc.nat(200), request)
    .map(([first, at, second]) => [first.subarray(0, at), first.subarray(at), second]),
  fc.uint8Array({ minLength: 1, maxLength: 200 }).map((bytes) => [Buffer.from(bytes)]),
);

// Promise(input): The HTTP port answers any bytes without a 5xx, and calls go on.
test(
  "whatever is written into sockets, no answer is a fault and calls go on",
  async () => {
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(fc.array(pieces, { minLength: TOGETHER, maxLength: TOGETHER }), async (connections) => {
        const answers = await Promise.all(connections.map(speak));
        answers.forEach(expectNoFault);
        for (const answer of answers) for (const [, status] of answer.matchAll(STATUS_LINE)) seen.add(status ?? "");
        await expectWell();
      }),
      { numRuns: runs(10), interruptAfterTimeLimit: runsMs(60_000), endOnFailure: true },
    );
    // Otherwise what was written would have reached no page.
    expect([...seen]).toEqual(expect.arrayContaining(["200", "400"]));
  },
  runsMs(90_000),
);

describe("bodies", () => {
  const text = fc.oneof(
    fc.constantFrom("edge", "k", "v", "", "__proto__"),
    fc.string({ unit: "binary", maxLength: 8 }),
  );
  const odd = fc.oneof(fc.constantFrom<unknown>(null, true, -1, 1e308, "1", [], {}), fc.jsonValue({ maxDepth: 2 }));
  const maybe = <T>(usual: fc.Arbitrary<T>) => fc.oneof({ weight: 8, arbitrary: usual }, { weight: 1, arbitrary: odd });
  const entry = fc.record({ key: maybe(text), value: maybe(text) }, { requiredKeys: [] });
  const limit = fc.record({ requests_per_unit: maybe(fc.nat()), unit: maybe(fc.constantFrom("MINUTE", "day", 3, 99)) });
  const descriptor = fc.record(
    { entries: maybe(fc.array(maybe(entry), { maxLength: 4 })), limit: maybe(limit), hits_addend: maybe(fc.nat()) },
    { requiredKeys: [] },
  );
  const question = fc.record(
    {
      domain: maybe(text),
      descriptors: maybe(fc.array(maybe(descriptor), { maxLength: 4 })),
      hits_addend: maybe(fc.nat()),
      global_limit: maybe(fc.boolean()),
    },
    { requiredKeys: [] },
  );
  const sent = fc.oneof(
    question.map((value) => Buffer.from(JSON.stringify(value))),
    fc.tuple(question, fc.nat(), fc.nat(255)).map(([value, at, byte]) => {
      const bytes = Buffer.from(JSON.stringify(value));
      bytes[at % bytes.length] = byte;
      return bytes;
    }),
  );

  // Promise(input): Any body sent to `/json`, `/explain` or `/buckets` is answered or rejected with a sentence.
  test.each(["/json", "/explain", "/buckets/peek"])(
    "to %s are answered or refused with a sentence",
    async (page) => {
      await fc.assert(
        fc.asyncProperty(fc.array(sent, { minLength: 8, maxLength: 8 }), async (bodies) => {
          await Promise.all(
            bodies.map(async (bytes) => {
              const response = await app.http(page, { method: "POST", body: new Uint8Array(bytes) });
              const answer = await response.text();
              expect([200, 400, 429], `${bytes.toString()} ${answer}`).toContain(response.status);
              if (response.status === 400) expect(answer).toMatch(/^REQUEST_[A-Z_0-9]+: \S[^\n]*\n$/);
              else JSON.parse(answer);
            }),
          );
        }),
        { numRuns: runs(30) },
      );
      await expectWell();
    },
    runsMs(60_000),
  );

  test("that come a byte at a time delay no other call", async () => {
    const sockets = Array.from({ length: 100 }, () => connect(app.httpPort, "127.0.0.1"));
    for (const socket of sockets) {
      socket.on("error", () => undefined);
      socket.write("POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n{");
    }
    const drip = setInterval(() => {
      for (const socket of sockets) socket.write(" ");
    }, 20);
    for (let i = 0; i < 10; i++) await expectWell();
    clearInterval(drip);
    for (const socket of sockets) socket.destroy();
  });
});
