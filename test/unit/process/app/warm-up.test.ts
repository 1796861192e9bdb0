// What runs before a process says that it is ready.

import { expect, test } from "vitest";
import { StoreError } from "../../../../src/base/errors.ts";
import { warmUpCalls, warmUpStore } from "../../../../src/process/app/warm-up.ts";
import { MemoryStore } from "../../../../src/stores/memory/memory-store.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";

test("warming up calls takes well under a second of CPU", async () => {
  // Not of time: a machine that others use may have none to give.
  const before = process.cpuUsage();
  await warmUpCalls(new ManualClock());
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1_000).toBeLessThan(1_000);
});

test("warming up a store leaves no bucket behind", async () => {
  const store = new MemoryStore({ clock: new ManualClock() });
  await warmUpStore(store);
  expect(store.bucketCount).toBe(0);
});

test("a store that fails is not asked again", async () => {
  const store = new ScriptedStore(new ManualClock());
  store.failure = new StoreError("STORE_UNREACHABLE", "no connection");
  await warmUpStore(store);
  expect(store.seen.length).toBeLessThanOrEqual(16);
});
