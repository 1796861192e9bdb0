// The store for express-rate-limit, in the released middleware on Express, against a real service whose time is moved by hand.

import { createServer, type RequestListener, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { type Options, rateLimit, type Store } from "express-rate-limit";
import { rateLimit as rateLimit7 } from "express-rate-limit-7";
import { rateLimit as rateLimit84 } from "express-rate-limit-8.4";
import { beforeAll, describe, expect, test } from "vitest";
import { headgateStore, type StoreOptions } from "../../packages/client/src/express-rate-limit.ts";
import { addressOf, NOBODY, openLimiter } from "../support/limiters.ts";
import { listen } from "../support/listen.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { compileYaml } from "../support/rules.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

type Handler = (request: unknown, response: { status(code: number): { send(body: string): void } }) => void;
interface ExpressApp extends RequestListener {
  use(handler: unknown): void;
  get(path: string, handler: Handler): void;
}
// Express has no types of its own.
const express = createRequire(import.meta.url)("express") as () => ExpressApp;

const RULES = `
domain: edge
descriptors:
  - key: ruled
    rate_limit: { requests_per_unit: 3, window: 90s, algorithm: fixed_window }
`;
const MINUTE = { windowMs: 60_000, limit: 3 };

const clock = new ManualClock();
let app: TestApp;
beforeAll(async () => {
  app = await startTestApp(RULES, {}, clock);
});

const newStore = (options: Partial<StoreOptions>) =>
  headgateStore(openLimiter([addressOf(app)]), { domain: "edge", entry: "api", ...options });

/** A store that a middleware has initialized. */
function readyStore(options: Partial<StoreOptions>, numbers = MINUTE) {
  const store = newStore(options);
  rateLimit({ ...numbers, store });
  return store;
}

/** The oldest release with which stores may skip, the newest, and one with which they may not. */
const VERSIONS = [
  { version: "7.5.1", make: rateLimit7 as typeof rateLimit },
  { version: "8.4.1", make: rateLimit84 as typeof rateLimit },
  { version: "8.7.5", make: rateLimit },
];
const SKIPPING = VERSIONS.filter(({ version }) => version !== "7.5.1");

/** A process of a service, limited by this middleware; a path such as /404 is answered with that status. */
async function serviceWith(options: Partial<Options>, make = rateLimit): Promise<(path?: string) => Promise<Response>> {
  const service = express();
  service.use(make({ standardHeaders: "draft-7", keyGenerator: () => "caller", ...options }));
  service.get("/:status", ((request: { params: { status: string } }, response) =>
    response.status(Number(request.params.status)).send("served\n")) as Handler);
  const port = await listen(createServer(service));
  return (path = "/200") => fetch(`http://127.0.0.1:${port}${path}`);
}

describe("processes with the store", () => {
  // Promise(clients): Services on express-rate-limit or @fastify/rate-limit share one exact limit by changing their store.
  test.each(VERSIONS)("allow together exactly the limit, and say what remains: $version", async ({ version, make }) => {
    const options = { windowMs: 60_000, limit: 5 };
    const processes = await Promise.all(
      [1, 2, 3].map(() => serviceWith({ ...options, store: newStore({ entry: `together ${version}` }) }, make)),
    );
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => processes[i % 3]?.()));
    expect(answers.map((answer) => answer?.status).toSorted()).toEqual([...Array(5).fill(200), ...Array(7).fill(429)]);
    const served = answers.filter((answer) => answer?.status === 200);
    expect(served.map((answer) => answer?.headers.get("x-ratelimit-remaining")).toSorted()).toEqual([..."01234"]);
    const refused = answers.find((answer) => answer?.status === 429);
    expect(refused?.headers.get("x-ratelimit-limit")).toBe("5");
    expect(refused?.headers.get("ratelimit")).toBe("limit=5, remaining=0, reset=60");
    expect(refused?.headers.get("retry-after")).toBe("60");
    clock.advanceSeconds(60);
    expect((await processes[0]?.())?.status).toBe(200);
  });

  test.each([
    { skips: { skipSuccessfulRequests: true }, path: "/200", others: "/404" },
    { skips: { skipFailedRequests: true }, path: "/404", others: "/200" },
    {
      skips: {
        skipSuccessfulRequests: true,
        requestWasSuccessful: (_: unknown, { statusCode }: { statusCode: number }) => statusCode !== 404,
      },
      path: "/200",
      others: "/404",
    },
  ])("give back what they skip, and nothing for a refused request: $skips", async ({ skips, path, others }) => {
    const store = newStore({ entry: Object.entries(skips).join() });
    const ask = await serviceWith({ ...MINUTE, store, ...skips });
    const used = () => store.get("caller").then((info) => info?.totalHits ?? 0);
    for (let i = 0; i < 4; i++) {
      expect((await ask(path)).status).toBe(Number(path.slice(1)));
      await expect.poll(used).toBe(0);
    }
    for (let i = 0; i < 3; i++) expect((await ask(others)).status).toBe(Number(others.slice(1)));
    // Each of these ends before the next one begins, and would give back what another has paid.
    for (let i = 0; i < 4; i++) expect((await ask(others)).status).toBe(429);
    expect(await used()).toBe(3);
  });
});

/** Ways to answer requests. `later` keeps an answer, which is then sent by whatever sends the next ones. */
const HANDLERS: { way: string; answer: (response: ServerResponse, later: (send: () => void) => void) => void }[] = [
  { way: "at once", answer: (response) => response.end("ok\n") },
  { way: "after a while", answer: (response) => setTimeout(() => response.end("ok\n"), 20) },
  { way: "from a queue", answer: (response, later) => later(() => response.end("ok\n")) },
];
const REQUEST = "GET / HTTP/1.1\r\nHost: x\r\n";

describe.each(SKIPPING)("with express-rate-limit $version, requests that are skipped", ({ version, make }) => {
  /** A service that skips failed requests; `answer` answers all, refused or not. */
  async function skippingService(store: Store, answer: (response: ServerResponse) => void) {
    const service = express();
    const options = { windowMs: 86_400_000, limit: 3, store, skipFailedRequests: true, keyGenerator: () => "caller" };
    const served = { count: 0 };
    const refuse: Options["handler"] = (_request, response) => {
      response.status(429);
      answer(response as unknown as ServerResponse);
    };
    service.use(make({ ...options, handler: refuse }));
    service.get("/", ((_request: unknown, response: unknown) => {
      served.count++;
      answer(response as ServerResponse);
    }) as Handler);
    return { served, port: await listen(createServer(service)) };
  }

  // Promise(clients): A refused request never gives back what another one has paid.
  // A caller that pipelines has several requests under way in one connection, whose answers end in each other's events.
  test.each(HANDLERS)(
    "never give back what another one has paid: pipelined, answered $way",
    async ({ way, answer }) => {
      const store = newStore({ entry: `pipelined ${version} ${way}` });
      const queue: (() => void)[] = [];
      const { served, port } = await skippingService(store, (response) => answer(response, (send) => queue.push(send)));
      for (let round = 0; round < 4; round++) {
        const socket = connect(port, "127.0.0.1");
        const answered = text(socket);
        socket.write(`${`${REQUEST}\r\n`.repeat(5)}${REQUEST}Connection: close\r\n\r\n`);
        await expect.poll(() => queue.length).toBe(way === "from a queue" ? 6 : 0);
        for (const send of queue.splice(0)) send();
        await answered;
      }
      expect(served.count).toBe(3);
      expect((await store.get?.("caller"))?.totalHits).toBe(3);
    },
  );

  test("give their own hit back when the caller leaves", async () => {
    const store = newStore({ entry: `left ${version}` });
    const { served, port } = await skippingService(store, (response) => response.statusCode === 429 && response.end());
    const used = () => store.get("caller").then((info) => info?.totalHits ?? 0);
    for (let round = 1; round <= 3; round++) {
      const sockets = [1, 2, 3, 4, 5].map(() => connect(port, "127.0.0.1"));
      for (const socket of sockets) socket.write(`${REQUEST}\r\n`);
      await expect.poll(() => served.count).toBe(3 * round);
      await expect.poll(() => sockets.filter(({ bytesRead }) => bytesRead > 0).length).toBe(2);
      expect(await used()).toBe(3);
      for (const socket of sockets) socket.destroy();
      await expect.poll(used).toBe(0);
    }
  });
});

describe("a store with express-rate-limit 7.5.1", () => {
  test.each(["skipFailedRequests", "skipSuccessfulRequests"])("is refused with %s", (skip) => {
    const store = newStore({});
    expect(() => rateLimit7({ ...MINUTE, store, [skip]: true })).toThrow(
      `${skip}: expected false with express-rate-limit before 8.4.1, whose refused requests would give back what others paid.`,
    );
    expect(() => rateLimit7({ ...MINUTE, store: newStore({}), [skip]: false })).not.toThrow();
  });
});

describe("the store", () => {
  test("counts by key: hits, decrements, resets, and what is used without a hit", async () => {
    const store = readyStore({ entry: "contract" });
    expect(store.prefix).toBe("contract");
    const totals = [];
    for (let i = 0; i < 3; i++) totals.push((await store.increment("a")).totalHits);
    expect(totals).toEqual([1, 2, 3]);
    expect((await store.increment("b")).totalHits).toBe(1);
    await store.decrement("b");
    expect(await store.get("b")).toBeUndefined();
    expect((await store.get("a"))?.totalHits).toBe(3);
    await store.resetKey("a");
    expect(await store.get("a")).toBeUndefined();
    expect((await store.increment("a")).totalHits).toBe(1);
    await store.decrement("never seen");
    expect((await store.increment("never seen")).totalHits).toBe(1);
  });

  test.each([undefined, null])("counts callers whose key is %s together", async (key) => {
    const store = newStore({ entry: `no key ${key}` });
    const ask = await serviceWith({ ...MINUTE, store, keyGenerator: () => key as unknown as string });
    const answers = [await ask(), await ask(), await ask(), await ask()];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
  });

  test("totals at most one more than the limit, with the time at which the hit could pass", async () => {
    const store = readyStore({ entry: "beyond", ruleDecides: false }, { windowMs: 3_600_000, limit: 1 });
    await store.increment("a");
    for (let i = 0; i < 3; i++) {
      const { totalHits, resetTime } = await store.increment("a");
      expect(totalHits).toBe(2);
      expect((resetTime.getTime() - Date.now()) / 3_600_000).toBeCloseTo(1, 2);
    }
  });

  // Promise(clients): Callers who keep the pace of a limit up to 1,000 are never refused by the stores for other middleware.
  test.each<{ limit: number; everySeconds: number; algorithm?: "sliding_window" | "fixed_window"; refused: number }>([
    { limit: 1, everySeconds: 61, refused: 0 },
    { limit: 2, everySeconds: 31, refused: 0 },
    { limit: 10, everySeconds: 6.5, refused: 0 },
    { limit: 10, everySeconds: 6.5, algorithm: "fixed_window", refused: 0 },
    { limit: 1, everySeconds: 61, algorithm: "sliding_window", refused: 20 },
  ])("counts $limit a minute, asked every $everySeconds s, by $algorithm", async ({ refused, ...row }) => {
    const { limit, everySeconds, ...options } = row;
    const store = readyStore({ entry: `pace ${JSON.stringify(row)}`, ...options }, { windowMs: 60_000, limit });
    let above = 0;
    for (let i = 0; i < 40; i++) {
      above += Number((await store.increment("a")).totalHits > limit);
      clock.advanceSeconds(everySeconds);
    }
    expect(above).toBe(refused);
  });

  test("lets the rule decide if configured, and only shows the middleware's numbers", async () => {
    const ask = await serviceWith({
      windowMs: 90_000,
      limit: 3,
      store: newStore({ entry: "ruled", ruleDecides: true }),
    });
    const answers = [await ask(), await ask(), await ask(), await ask()];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    expect(answers.map(({ headers }) => headers.get("x-ratelimit-remaining"))).toEqual(["2", "1", "0", "0"]);
  });

  test.each([
    { options: { entry: "no-rule", ruleDecides: true }, says: "no such rule" },
    { options: { domain: "no-domain" }, says: "no such domain" },
  ])("fails each call, with the rule file to write, where Headgate has $says", async ({ options, says }) => {
    const message = String(await readyStore(options).increment("a").catch(String));
    expect(message).toContain(`Error: Headgate has ${says}. Write this rule file:`);
    expect(problemsOf(message)).toEqual([]);
  });

  test.each([
    { onFailure: "allow" as const, info: { totalHits: 1, resetTime: expect.any(Date) } },
    { onFailure: "deny" as const, info: { totalHits: 4, resetTime: expect.any(Date) } },
    { onFailure: "throw" as const, info: expect.stringContaining("CheckFailure: can't connect") },
  ])("leaves a call that no server answers to the client's policy: $onFailure", async ({ onFailure, info }) => {
    const store = headgateStore(openLimiter([NOBODY], { onFailure }), { domain: "edge", entry: "api" });
    rateLimit({ ...MINUTE, store });
    expect(await store.increment("a").catch(String)).toEqual(info);
  });
});

describe("what can't be expressed", () => {
  test.each<[what: string, options: Partial<Options>, says: string, own?: Partial<StoreOptions>]>([
    [
      "a window that is no unit",
      { windowMs: 900_000, limit: 5 },
      'windowMs: expected a second, minute, hour, day, week, month, year in milliseconds, got 900000. For other windows write a rule and set `ruleDecides: true`:\ndomain: "edge"\ndescriptors:\n  - key: "api"\n    rate_limit: { requests_per_unit: 5, window: 900s, algorithm: sliding_log }',
    ],
    [
      "a limit that is known only in a request",
      { limit: () => 5 },
      'limit: expected a number, got a function: stores are not told its result. Use expressLimit of "@headgate/client", with a rule for each kind of caller',
    ],
    [
      "a log that is too long",
      { limit: 1_001 },
      "limit of a sliding_log: expected a whole number from 0 to 1000, got 1001",
      { algorithm: "sliding_log" },
    ],
    ["a limit that is no amount", { limit: -1 }, "limit: expected a whole number from 0 to 4294967295, got -1"],
  ])("fails when the middleware is made: %s", (_what, options, says, own = {}) => {
    const store = newStore(own);
    expect(() => rateLimit({ ...options, store })).toThrow(new TypeError(says));
    expect(() => store.get).toThrow(TypeError);
  });

  test("shows a rule file that loads", () => {
    const store = newStore({ domain: "a b", entry: "x:y" });
    store.init({ windowMs: 1_500, limit: 5 });
    expect(problemsOf(String(caught(() => store.get)))).toEqual([]);
  });

  test.each<[options: object, says: string]>([
    [
      { domain: "edge", entry: "api", algorithm: "leaky_bucket" },
      'algorithm: expected one of sliding_log, sliding_window, fixed_window, token_bucket, got "leaky_bucket"',
    ],
    [{ domain: "edge" }, "entry: expected text, got undefined"],
    [{ domain: "", entry: "api" }, 'domain: expected text, got ""'],
    [
      { domain: "edge", entry: "api", window: 5 },
      'headgateStore: there is no "window"; expected domain, entry, ruleDecides, algorithm',
    ],
  ])("fails when the store is made: %o", (options, says) => {
    expect(() => headgateStore(openLimiter([NOBODY]), options as StoreOptions)).toThrow(new TypeError(says));
  });

  test("a store without a middleware fails, and resetAll is not there", async () => {
    const store: Store = newStore({});
    await expect(store.increment("a")).rejects.toThrow("pass it to rateLimit() first");
    expect(store.resetAll).toBeUndefined();
  });
});

test("sends each window that is a unit as the call's own limit", async () => {
  const units: unknown[] = [];
  for (const [days, unit] of [
    [1, "day"],
    [7, "week"],
    [30, "month"],
    [365, "year"],
  ] as const) {
    const limiter = openLimiter([addressOf(app)]);
    const check: typeof limiter.check = async (request) => {
      const decision = await limiter.check(request);
      units.push([decision.limit?.requestsPerUnit, decision.limit?.unit, unit]);
      return decision;
    };
    const store = headgateStore({ check }, { domain: "edge", entry: "units" });
    store.init({ windowMs: days * 86_400_000, limit: 9 });
    await store.increment(unit);
  }
  expect(units).toEqual(["day", "week", "month", "year"].map((unit) => [9, unit, unit]));
});

function caught(make: () => unknown): unknown {
  try {
    return make();
  } catch (error) {
    return error;
  }
}

/** What is wrong with the rule file at the end of a message. */
function problemsOf(message: string) {
  return compileYaml(message.slice(message.indexOf("domain: "))).problems;
}
