// An HTTP port that is full of connections which do nothing, whatever kind of nothing: probes get in all the same.

import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { readBody } from "../../src/operate/http/body.ts";
import { notFound, type Page, PageServer, READ, text } from "../../src/operate/http/page-server.ts";
import { endWithTest } from "../support/ends.ts";
import { runs } from "../support/runs.ts";

const MAX = 40;
const REQUEST_BYTES_MAX = 60_000;
const ANSWER_BYTES_MAX = 100_000_000;
/** More than sockets hold on their way. */
const LONG_BYTES = 8_000_000;

/** What a connection says before it falls silent. */
const IDLERS: Readonly<Record<string, string>> = {
  "says nothing": "",
  "keeps its connection after an answer": "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n",
  "sends half a head": "GET /livez HTTP/1.1\r\nhost:",
  "sends a head and no body": "POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n",
  "sends half a chunk": "POST /json HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
  "reads no answer": "GET /long HTTP/1.1\r\nhost: x\r\n\r\n",
  "sends a request after another, and half of a third": `${"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2)}GET /l`,
};

let port: number;
let crowd: Socket[] = [];
const failures: unknown[] = [];
let server: PageServer;

beforeEach(async () => {
  failures.length = 0;
  crowd = [];
  const page = (methods: Page["methods"], answer: Page["answer"]): Page => ({ methods, help: "", answer });
  const long = { ...text(200, ""), body: Buffer.alloc(LONG_BYTES) };
  server = new PageServer({
    host: "127.0.0.1",
    port: 0,
    pages: new Map([
      ["/livez", page(READ, () => text(200, "OK\n"))],
      ["/long", page(READ, () => long)],
      ["/pieces", page(READ, () => ({ ...text(200, ""), body: ["x".repeat(LONG_BYTES), "y"] }))],
      ["/json", page(["POST"], async (request) => text(200, String((await readBody(request, 6_000)).length)))],
    ]),
    otherPage: notFound,
    onError: (error) => failures.push(error),
    bounds: { connectionsMax: MAX, requestBytesMax: REQUEST_BYTES_MAX, answerBytesMax: ANSWER_BYTES_MAX },
  });
  port = await server.listen();
  endWithTest(() => server.close(0));
});

async function idle(words: string): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  crowd.push(socket);
  endWithTest(() => socket.destroy());
  socket.on("error", () => undefined);
  await once(socket, "connect");
  if (!/\/(long|pieces)/.test(words)) socket.resume();
  socket.write(words);
}

/** A probe as Kubernetes sends it: a connection of its own. */
function probe(): Promise<number | string> {
  return new Promise((resolve) => {
    const request = httpRequest({ host: "127.0.0.1", port, path: "/livez", agent: false }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode ?? 0));
    });
    request.on("error", (error) => resolve(error.message));
    request.end();
  });
}

/** Numbers of the connections that the server has not closed. Those that have read nothing so far notice it by reading. */
function living(): number[] {
  for (const socket of crowd) socket.resume();
  return crowd.map(({ destroyed }, i) => (destroyed ? -1 : i)).filter((i) => i >= 0);
}

describe("a probe gets in while every place is taken by somebody who", () => {
  test.each(Object.entries(IDLERS))("%s", async (_name, words) => {
    for (let i = 0; i < 2 * MAX; i++) await idle(words);
    for (let i = 0; i < 5; i++) expect(await probe()).toBe(200);
    expect(failures).toEqual([]);
  });

  // Promise(turns): Health probes are answered while all other connections of the HTTP port idle.
  test("does any of these, in any mixture, as more of them come between probes", async () => {
    const kinds = fc.array(fc.constantFrom(...Object.values(IDLERS)), { minLength: MAX, maxLength: 2 * MAX });
    await fc.assert(
      fc.asyncProperty(kinds, async (all) => {
        for (const [i, words] of all.entries()) {
          await idle(words);
          if (i > MAX && i % 7 === 0) expect(await probe()).toBe(200);
        }
        await expect.poll(() => living().length).toBeLessThanOrEqual(MAX);
        for (const socket of crowd) socket.destroy();
        crowd = [];
      }),
      { numRuns: runs(5) },
    );
    expect(failures).toEqual([]);
  });
});

test("who waits for an answer keeps its place as long as somebody idles", async () => {
  await idle("");
  const asking = connect(port, "127.0.0.1");
  endWithTest(() => asking.destroy());
  await once(asking, "connect");
  asking.write("POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n");
  for (let i = 0; i < 3 * MAX; i++) await idle("");
  asking.write("abc");
  const [answer] = (await once(asking, "data")) as [Buffer];
  expect(answer.toString()).toMatch(/^HTTP\/1.1 200 /);
});

// Promise(turns): Requests that never end take nobody's place, and bounded memory in all connections together.
describe("all together hold no more than a bound, and the oldest end:", () => {
  test.each([
    [
      "bodies without an end",
      `POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 6000\r\n\r\n${"x".repeat(5_000)}`,
      "requests" as const,
    ],
    ["heads without an end", `GET /livez HTTP/1.1\r\nhost: x\r\nx-long: ${"x".repeat(5_000)}`, "requests" as const],
    [
      "an end of a head and half of another",
      `GET /livez HTTP/1.1\r\nhost: x\r\n\r\nGET /${"x".repeat(7_000)}`,
      "requests" as const,
    ],
    ["answers that nobody reads", "GET /long HTTP/1.1\r\nhost: x\r\n\r\n", "answers" as const],
    ["answers in pieces that nobody reads", "GET /pieces HTTP/1.1\r\nhost: x\r\n\r\n", "answers" as const],
  ])("%s", async (_name, words, why) => {
    for (let i = 0; i < 30; i++) {
      await idle(words);
      expect(await probe()).toBe(200);
    }
    // Before anybody reads: a busy server may not have begun all answers yet.
    await expect.poll(() => server.closed[why], { timeout: 20_000 }).toBeGreaterThan(10);
    await expect.poll(() => server.closed[why] + living().length).toBe(30);
    expect(living()).toEqual(living().map((_, i, { length }) => 30 - length + i));
    const response = await fetch(`http://127.0.0.1:${port}/json`, { method: "POST", body: "x".repeat(90) });
    expect(await response.text()).toBe("90");
    expect(failures).toEqual([]);
  });
});
