// Clients that ask the HTTP port for far more than it can make: no turn of the event loop is long for them, nobody else waits, and
// nothing is made for those that have left.

import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { beforeEach, describe, expect, test } from "vitest";
import { notFound, type Page, PageServer, READ, text } from "../../src/operate/http/page-server.ts";
import { endWithTest } from "../support/ends.ts";
import { BusyWatch, onThisMachine, TurnWatch } from "../support/turn-watch.ts";

const TURN_MS_MAX = 50;
/** As long as a page of metrics takes. */
const PAGE_MS = 3;
const PIECE_MS = 1;

let port: number;
let made: number;
let sockets: Socket[];
const failures: unknown[] = [];

/** What is only a matter of time. */
function work(ms: number): void {
  const watch = new BusyWatch();
  while (watch.ms() < ms);
}

beforeEach(async () => {
  made = 0;
  sockets = [];
  failures.length = 0;
  const page = (answer: Page["answer"], isLong = true): Page => ({ methods: READ, help: "", isLong, answer });
  const pieces = function* () {
    for (let i = 0; i < 20; i++) {
      work(PIECE_MS);
      yield "x".repeat(32_768);
    }
  };
  const make = async (ms: number, body: () => ReturnType<typeof text>["body"]) => {
    made++;
    // As a page that asks a store: what follows is work all the same.
    await new Promise((resolve) => setTimeout(resolve, 1));
    work(ms);
    return text(200, body());
  };
  const server = new PageServer({
    host: "127.0.0.1",
    port: 0,
    pages: new Map([
      ["/long", page(() => make(PAGE_MS, () => "x".repeat(100_000)))],
      ["/pieces", page(() => make(0, pieces))],
      ["/livez", page(() => text(200, "OK\n"), false)],
    ]),
    otherPage: notFound,
    onError: (error) => failures.push(error),
  });
  port = await server.listen();
  endWithTest(() => server.close(0));
});

async function flood(connections: number, words: string, reads: boolean): Promise<void> {
  for (let i = 0; i < connections; i++) {
    const socket = connect(port, "127.0.0.1");
    endWithTest(() => socket.destroy());
    socket.on("error", () => undefined);
    sockets.push(socket);
    await once(socket, "connect");
    if (reads) socket.resume();
    socket.write(words);
  }
}

/** Milliseconds until a probe on a connection of its own is answered. */
function probe(): Promise<number> {
  const startMs = performance.now();
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: "127.0.0.1", port, path: "/livez", agent: false }, (response) => {
      response.resume();
      response.on("end", () => resolve(performance.now() - startMs));
    });
    request.on("error", reject);
    request.end();
  });
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`;
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

// Promise(turns): However many requests come to the HTTP port, pipelined or on many connections, no turn is long for them.
describe("no turn is longer than 50 ms, a probe gets in, and nothing is made for who has left, while", () => {
  test.each([
    { name: "one connection pipelines long pages", connections: 1, words: get("/long").repeat(1_400), reads: true },
    { name: "twenty connections do", connections: 20, words: get("/long").repeat(1_400), reads: true },
    { name: "they read no answer", connections: 20, words: get("/long").repeat(1_400), reads: false },
    { name: "hundreds ask for one page each", connections: 400, words: get("/long"), reads: true },
    { name: "hundreds ask for pages in pieces", connections: 200, words: get("/pieces").repeat(20), reads: true },
    { name: "the shortest requests are pipelined", connections: 20, words: get("/").repeat(50_000), reads: true },
  ])("$name", async ({ connections, words, reads }) => {
    const watch = new TurnWatch();
    await flood(connections, words, reads);
    const probes: number[] = [];
    for (let i = 0; i < 5; i++) {
      probes.push(await probe());
      await pause(20);
    }
    const longestMs = watch.stop();
    for (const socket of sockets) socket.destroy();
    const before = made;
    for (let seen = -1; seen !== made; await pause(200)) seen = made;
    // That a peer has left is noticed at the latest when it is answered.
    expect(made - before).toBeLessThanOrEqual(2 * connections + 8);
    expect(longestMs).toBeLessThan(onThisMachine(TURN_MS_MAX, longestMs));
    expect(Math.min(...probes)).toBeLessThan(onThisMachine(500, Math.min(...probes)));
    expect(failures).toEqual([]);
  });
});

// Promise(turns): Pipelined requests are answered one after another, in order.
test("all of many pipelined requests are answered, in order", async () => {
  const socket = connect(port, "127.0.0.1");
  endWithTest(() => socket.destroy());
  let answers = "";
  socket.on("data", (bytes) => {
    answers += bytes.toString("latin1");
  });
  const last = "GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
  socket.end(`${get("/livez").repeat(300)}${get("/nothing").repeat(300)}${last}`);
  await once(socket, "close");
  const codes = [...answers.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, code]) => code);
  expect(codes).toEqual([...Array(300).fill("200"), ...Array(300).fill("404"), "200"]);
});
