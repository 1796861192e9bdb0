// Waiting for limits, on a service of a test's own and on time that is moved by hand.

import { getEventListeners } from "node:events";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { CheckDecision, CheckRequest } from "../src/client.ts";
import { Turns, WaitRefused } from "../src/turns.ts";

const BARE = { statuses: [], headers: {}, metadata: {} };
const ALLOWED: CheckDecision = { ...BARE, allowed: true };
const refusedFor = (retryAfterSeconds: number): CheckDecision => ({ ...BARE, allowed: false, retryAfterSeconds });
const hits = (count: number): CheckRequest => ({ domain: "edge", descriptors: [{ api: "a" }], hits: count });

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A service that allows so many hits in each second, and what it was asked and when. */
function service(perSecond: number) {
  const asks: string[] = [];
  const used = new Map<number, number>();
  const startMs = performance.now();
  const check = async (request: CheckRequest): Promise<CheckDecision> => {
    const atMs = performance.now() - startMs;
    const second = Math.floor(atMs / 1_000);
    const { hits: cost = 1 } = request;
    asks.push(`${cost} at ${atMs}`);
    await undefined;
    const after = (used.get(second) ?? 0) + cost;
    if (after > perSecond) return refusedFor(1);
    used.set(second, after);
    return ALLOWED;
  };
  return { asks, turns: new Turns(check), now: () => performance.now() - startMs };
}

/** How a promise ends, as text in `ends`. */
function noted(ends: string[], name: string, waiting: Promise<unknown>): void {
  waiting.then(
    () => ends.push(`${name} passes`),
    (error) => ends.push(`${name}: ${error instanceof Error ? error.message : String(error)}`),
  );
}

describe("calls that wait", () => {
  // Promise(clients): Calls that wait for one key pass in the order in which they came, at the service's pace.
  test("pass in the order in which they came, at the service's pace, and only the first one asks", async () => {
    const { turns, asks, now } = service(3);
    const passed: string[] = [];
    for (let i = 1; i <= 7; i++) void turns.wait("k", hits(1), 5_000).then(() => passed.push(`${i} at ${now()}`));
    await vi.advanceTimersByTimeAsync(999);
    expect(passed).toEqual(["1 at 0", "2 at 0", "3 at 0"]);
    expect(asks).toHaveLength(4);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(passed.slice(3)).toEqual(["4 at 1000", "5 at 1000", "6 at 1000", "7 at 2000"]);
    expect(asks).toHaveLength(9);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("do not overtake an earlier call with a higher cost, and delay no other key", async () => {
    const { turns } = service(3);
    const ends: string[] = [];
    await turns.wait("k", hits(1), 0);
    noted(ends, "dear", turns.wait("k", hits(3), 5_000));
    noted(ends, "cheap", turns.wait("k", hits(1), 5_000));
    noted(ends, "other", turns.wait("other", hits(1), 5_000));
    await vi.advanceTimersByTimeAsync(999);
    expect(ends).toEqual(["other passes"]);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(ends).toEqual(["other passes", "dear passes", "cheap passes"]);
  });

  test("ask at once after the queue was empty for a while", async () => {
    const { turns, asks } = service(3);
    await turns.wait("k", hits(1), 0);
    await vi.advanceTimersByTimeAsync(400);
    await turns.wait("k", hits(1), 0);
    expect(asks).toEqual(["1 at 0", "1 at 400"]);
  });
});

describe("a call that can't be in time", () => {
  const LATE = "can't pass within maxWaitMs: refused, again in 1 s";

  test("is rejected at once, with the refusal: as the first, behind one that pauses, and later", async () => {
    const { turns, asks } = service(1);
    const ends: string[] = [];
    await turns.wait("k", hits(1), 0);
    await expect(turns.wait("k", hits(1), 1_000)).rejects.toEqual(new WaitRefused(LATE, refusedFor(1)));
    noted(ends, "patient", turns.wait("k", hits(1), 1_001));
    noted(ends, "behind", turns.wait("k", hits(1), 1_000));
    await vi.advanceTimersByTimeAsync(0);
    noted(ends, "later", turns.wait("k", hits(1), 999));
    await vi.advanceTimersByTimeAsync(0);
    expect(ends).toEqual([`behind: ${LATE}`, `later: ${LATE}`]);
    expect(asks).toHaveLength(3);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(ends.at(-1)).toBe("patient passes");
  });

  test("does not take those behind it along, who may be cheaper", async () => {
    const { turns } = service(3);
    const ends: string[] = [];
    await turns.wait("k", hits(2), 0);
    noted(ends, "dear", turns.wait("k", hits(3), 500));
    noted(ends, "cheap", turns.wait("k", hits(1), 500));
    await vi.advanceTimersByTimeAsync(0);
    expect(ends).toEqual([`dear: ${LATE}`, "cheap passes"]);
  });

  test("is rejected at maxWaitMs where others were first", async () => {
    const { turns } = service(1);
    const ends: string[] = [];
    for (const name of ["a", "b", "c"]) noted(ends, name, turns.wait("k", hits(1), name === "c" ? 1_500 : 9_000));
    await vi.advanceTimersByTimeAsync(1_499);
    expect(ends).toEqual(["a passes", "b passes", `c: ${LATE}`]);
  });

  test("is rejected at once if its cost can never pass", async () => {
    const turns = new Turns(async () => ({ ...BARE, allowed: false, reason: "sliding_window_exceeded" }));
    const waiting = turns.wait("k", hits(9), 60_000);
    await expect(waiting).rejects.toThrow("can't pass within maxWaitMs: sliding_window_exceeded");
  });

  test("passes after maxWaitMs if it was being checked then, because it has paid", async () => {
    const turns = new Turns(() => new Promise((resolve) => setTimeout(resolve, 80, ALLOWED)));
    const ends: string[] = [];
    noted(ends, "checked", turns.wait("k", hits(1), 50));
    noted(ends, "behind", turns.wait("k", hits(1), 50));
    await vi.advanceTimersByTimeAsync(50);
    expect(ends).toEqual(["behind: can't pass within maxWaitMs: others are first"]);
    await vi.advanceTimersByTimeAsync(30);
    expect(ends.at(-1)).toBe("checked passes");
  });
});

describe("a call that is aborted", () => {
  test.each(["first", "second"])("leaves the others their turns: the %s", async (aborted) => {
    const { turns } = service(1);
    const ends: string[] = [];
    const controller = new AbortController();
    await turns.wait("k", hits(1), 0);
    for (const name of ["first", "second", "third"]) {
      noted(ends, name, turns.wait("k", hits(1), 9_000, name === aborted ? controller.signal : undefined));
    }
    await vi.advanceTimersByTimeAsync(10);
    controller.abort("enough");
    await vi.advanceTimersByTimeAsync(9_000);
    const others = ["first", "second", "third"].filter((name) => name !== aborted);
    expect(ends).toEqual([`${aborted}: enough`, ...others.map((name) => `${name} passes`)]);
  });

  test("ends with all others of its signal, which has one listener while any of them waits", async () => {
    const { turns } = service(0);
    const controller = new AbortController();
    const { signal } = controller;
    const listeners = () => getEventListeners(signal, "abort").length;
    const ends: string[] = [];
    for (let i = 0; i < 20; i++) noted(ends, `${i}`, turns.wait(`k${i % 3}`, hits(1), i === 0 ? 500 : 9_000, signal));
    expect(listeners()).toBe(1);
    await vi.advanceTimersByTimeAsync(600);
    expect(ends).toEqual(["0: can't pass within maxWaitMs: refused, again in 1 s"]);
    expect(listeners()).toBe(1);
    controller.abort("enough");
    await vi.advanceTimersByTimeAsync(0);
    expect(ends.slice(1)).toEqual(Array.from({ length: 19 }, (_, i) => `${i + 1}: enough`));
    expect(listeners()).toBe(0);
  });

  test("asks nothing if it was aborted before", async () => {
    const { turns, asks } = service(1);
    await expect(turns.wait("k", hits(1), 0, AbortSignal.abort("gone"))).rejects.toBe("gone");
    expect(asks).toEqual([]);
  });

  test("is over at once while it is being checked, and the next one is asked after that", async () => {
    const turns = new Turns(() => new Promise((resolve) => setTimeout(resolve, 80, ALLOWED)));
    const ends: string[] = [];
    const controller = new AbortController();
    noted(ends, "aborted", turns.wait("k", hits(1), 9_000, controller.signal));
    noted(ends, "next", turns.wait("k", hits(1), 9_000));
    controller.abort("enough");
    await vi.advanceTimersByTimeAsync(159);
    expect(ends).toEqual(["aborted: enough"]);
    await vi.advanceTimersByTimeAsync(1);
    expect(ends.at(-1)).toBe("next passes");
  });
});

test("a check that fails ends its own call alone", async () => {
  let calls = 0;
  const turns = new Turns(async () => {
    if (calls++ === 0) throw new Error("no server");
    return ALLOWED;
  });
  const both = [turns.wait("k", hits(1), 0), turns.wait("k", hits(1), 0)];
  expect((await Promise.allSettled(both)).map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
});

test("at most 10,000 wait, over all keys, and closing rejects them", async () => {
  const { turns } = service(0);
  const waiting = Array.from({ length: 10_000 }, (_, i) => turns.wait(`k${i % 3}`, hits(1), 9_000));
  await expect(turns.wait("new", hits(1), 9_000)).rejects.toThrow("10000 calls are waiting already");
  turns.close();
  const codes = await Promise.all(waiting.map((each) => each.catch(({ code }: { code: string }) => code)));
  expect(new Set(codes)).toEqual(new Set(["CANCELLED"]));
  await expect(turns.wait("new", hits(1), 0)).rejects.toThrow(WaitRefused);
  expect(vi.getTimerCount()).toBe(0);
});
