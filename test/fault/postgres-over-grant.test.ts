// The promise of no over-grant with several stores on one PostgreSQL, each with connections of its own: 64 callers on one
// key are granted burst + rate x time and not one more, whichever way their calls are kept apart.

import { afterAll, beforeAll, expect, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import { makeLimit } from "../support/builders.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { openPostgresRig } from "./postgres-rig.ts";
import { groupOn, settle } from "./store-rig.ts";

const STORES = 4;
const CALLERS = 64;
const SECONDS = 3;
const limit = makeLimit({ amount: 10, burst: 10, windowSeconds: 1 });

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start();
}, 60_000);
afterAll(() => server.stop());

test.each([
  { isolation: "row locks", repeatsMax: 10 },
  { isolation: "serializable", repeatsMax: Number.POSITIVE_INFINITY },
] as const)("64 callers on one key for three seconds, kept apart by $isolation", async ({ isolation, repeatsMax }) => {
  const options = { target: server.target(), deadlineMs: 5_000, isolation } as const;
  const rigs = await Promise.all(Array.from({ length: STORES }, () => openPostgresRig(options)));
  const key = `hot ${isolation}`;
  let allowed = 0;
  let refused = 0;
  let firstMs = Number.POSITIVE_INFINITY;
  let lastMs = 0;
  const endMs = performance.now() + SECONDS * 1_000;
  const call = async (caller: number) => {
    const store = rigs[caller % STORES]?.store;
    while (store !== undefined && performance.now() < endMs) {
      firstMs = Math.min(firstMs, performance.now());
      const { verdict } = await settle(store, groupOn(key, limit));
      lastMs = performance.now();
      if (verdict === Verdict.allowed) allowed++;
      else if (verdict === Verdict.refused) refused++;
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, caller) => call(caller)));
  const repeats = rigs.reduce((sum, { reports }) => sum + reports.repeats, 0);
  const failures = rigs.flatMap(({ reports }) => reports.failures);
  await Promise.all(rigs.map(({ store }) => store.close()));

  expect(allowed).toBeLessThanOrEqual(limit.burst + Math.floor((limit.amount * (lastMs - firstMs)) / 1_000));
  expect(allowed).toBeGreaterThanOrEqual(limit.burst + limit.amount * (SECONDS - 1));
  expect(refused).toBeGreaterThan(100);
  expect(repeats).toBeLessThanOrEqual(repeatsMax);
  // What can't be kept apart in so many attempts fails, and pays nothing.
  expect(failures.filter(({ code }) => code !== "STORE_COMMAND")).toEqual([]);
  process.stdout.write(
    `${isolation}: ${allowed} allowed, ${refused} refused, ${repeats} repeated, ${failures.length} failed\n`,
  );
});
