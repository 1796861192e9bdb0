// What a process publishes for the others, and how long it waits for what they have published.

import { expect, test } from "vitest";
import { newRuntimeTable, RuntimeTable } from "../../../src/engine/runtime/runtime-table.ts";
import { Peers } from "../../../src/process/app/peers.ts";
import { RuntimeSync } from "../../../src/rule-sources/runtime/runtime-sync.ts";
import type { RuntimeStore } from "../../../src/stores/runtime-store.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const clock = new ManualClock();

test("a process that has left the register publishes nothing more, which nobody would remove", async () => {
  const published: string[] = [];
  const store = {
    publish: async (_: string, report: string) => void published.push(report),
    leave: async () => undefined,
  } as unknown as RuntimeStore;
  const table = new RuntimeTable(newRuntimeTable(10), 1);
  const log = { warn: () => undefined, info: () => undefined };
  const sync = new RuntimeSync({ table, store, file: undefined, clock, log, name: "a:1" });
  await sync.publish("first");
  await sync.close();
  await sync.publish("second");
  expect(published).toEqual(["first"]);
});

test("a store that hangs holds nobody up who looks", async () => {
  const store = { published: () => new Promise(() => undefined) } as unknown as RuntimeStore;
  expect(await new Peers(store, clock).reports()).toBeUndefined();
}, 5_000);
