// The clock of Redis is set while it serves: forward, back, by a little and by a day. It gets a clock of its own
// (test/support/fake-clock.c); where there is no compiler for that these tests are left out.

import { beforeAll, describe, expect, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import { makeLimit } from "../support/builders.ts";
import { canFakeClocks, FakeClock } from "../support/fake-clock.ts";
import { RedisServer } from "../support/redis-server.ts";
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
