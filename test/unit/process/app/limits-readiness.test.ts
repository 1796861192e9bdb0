// Whether limits at run time keep a process from being ready: until they were read once, and never again.

import { expect, test } from "vitest";
import { RuntimeTable } from "../../../../src/engine/runtime/runtime-table.ts";
import { RuntimeSync } from "../../../../src/rule-sources/runtime/runtime-sync.ts";
import { memoryRuntimeStore } from "../../../../src/stores/memory/runtime-store.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

// Promise(outages): A store that goes away makes no process unready that has read its limits at run time, even if there are none.
test("a store without limits that goes away does not make a process unready", async () => {
  const clock = new ManualClock(1_000_000);
  const table = new RuntimeTable();
  let isAway = true;
  const empty = memoryRuntimeStore(new RuntimeTable(), clock, 10);
  const store = {
    ...empty,
    head: () => (isAway ? Promise.reject(new Error("away")) : empty.head()),
  };
  const shown: (string | undefined)[] = [];
  const log = { warn: () => undefined, info: () => undefined };
  const sync = new RuntimeSync({ table, store, file: undefined, clock, log, unread: (reason) => shown.push(reason) });
  await sync.tick();
  isAway = false;
  await sync.tick();
  isAway = true;
  await sync.tick();
  expect(shown).toEqual(["limits at run time can't be read: away", undefined]);
});
