// Clocks are set while a process serves. Redis gets a clock of its own (test/support/fake-clock.c), which is set forward, back, by a little
// and by a day; where there is no compiler for that these tests are left out.

import { beforeAll, describe, expect, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import { makeLimit } from "../support/builders.ts";
import { canFakeClocks, FakeClock } from "../support/fake-clock.ts";
import { RedisServer } from "../support/redis-server.ts";
import { startService } from "../support/service-process.ts";
import { groupOn, openRig, settle } from "./store-rig.ts";

const BURST = 20;
const LIMIT = makeLimit({ amount: 1, burst: BURST, windowSeconds: 60 });

describe.skipIf(!canFakeClocks())("the clock of Redis steps", () => {
  let server: RedisServer;
  let clock: FakeClock;
  beforeAll(async () => {
    clock = new FakeClock();
    server = await RedisServer.start([], undefined, clock.env);
  });

  async function shownOffsetMs(): Promise<number> {
    const [seconds, micros] = (await server.command("TIME")) as [string, string];
    return Number(seconds) * 1_000 + Number(micros) / 1_000 - Date.now();
  }

  // Promise(outages): A store's clock that is set back grants nothing.
  test.each([
    { name: "a second forward", byMs: 1_000 },
    { name: "a second back", byMs: -1_000 },
    { name: "a minute back", byMs: -60_000 },
    { name: "a day back", byMs: -86_400_000 },
  ])("$name: nothing is granted for it, and calls are answered by the store again at once", async ({ byMs }) => {
    clock.set(0);
    await server.flush();
    const { store, reports } = await openRig({ target: server.target(), deadlineMs: 1_000 });
    const take = () => settle(store, groupOn("k", LIMIT));
    for (let i = 0; i < BURST; i++) expect((await take()).verdict).toBe(Verdict.allowed);
    clock.set(byMs);
    expect(Math.abs((await shownOffsetMs()) - byMs)).toBeLessThan(500);
    const after = [await take(), await take(), await take()];
    // The first call may be refused payment, because its latest time was told by the clock before; none is paid.
    expect(after.every(({ takes }) => takes[0]?.paid === false)).toBe(true);
    expect(after.slice(1).map(({ verdict }) => verdict)).toEqual([Verdict.refused, Verdict.refused]);
    expect(reports.failures.length).toBeLessThanOrEqual(1);
  });

  test("a minute forward: as much is granted as the time that seems to have passed", async () => {
    clock.set(0);
    await server.flush();
    const { store } = await openRig({ target: server.target(), deadlineMs: 1_000 });
    const take = () => settle(store, groupOn("k", LIMIT));
    for (let i = 0; i < BURST; i++) await take();
    clock.set(60_000);
    let granted = 0;
    for (let i = 0; i < 5; i++) if ((await take()).takes[0]?.paid === true) granted++;
    expect(granted).toBeLessThanOrEqual(2);
  });
});

test("a process that began under a wrong clock limits by the right one, and says that the clock was set", async () => {
  const minutesWrong = 20;
  // What a process sees whose host's clock was set right after its start.
  const wrongStart = `import { performance } from "node:perf_hooks";
    const { timeOrigin } = performance;
    Object.defineProperty(performance, "timeOrigin", { value: timeOrigin - ${minutesWrong * 60_000} });`;
  const rules = `
domain: edge
descriptors:
  - key: user
    rate_limit: { requests_per_unit: 1, unit: hour, algorithm: fixed_window }`;
  const flags = ["--import", `data:text/javascript,${encodeURIComponent(wrongStart)}`];
  const { httpPort } = await startService({}, { rules, flags });
  const url = `http://127.0.0.1:${httpPort}`;
  const body = JSON.stringify({ domain: "edge", descriptors: [{ entries: [{ key: "user", value: "a" }] }] });
  const nextHour = () => Math.ceil(Date.now() / 3_600_000) * 3_600;
  const ends = nextHour();
  const answer = await (await fetch(`${url}/json`, { method: "POST", body })).json();
  const [{ durationUntilReset }] = (answer as { statuses: [{ durationUntilReset: string }] }).statuses;
  const shownEnd = Date.now() / 1_000 + Number.parseFloat(durationUntilReset);
  // The next hour, if that began meanwhile.
  expect(Math.min(...[ends, nextHour()].map((end) => Math.abs(shownEnd - end)))).toBeLessThan(3);
  const state = (await (await fetch(`${url}/state`)).json()) as { conditions: { id: string; says: string }[] };
  const says = `The host's clock was set: ${minutesWrong * 60} s ahead since the start.`;
  expect(state.conditions).toContainEqual(expect.objectContaining({ id: "clock set", says }));
});
