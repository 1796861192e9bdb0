// What a process tells the others until it closes, and how long it waits for what they have published.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { keyText, valueText } from "../../../src/engine/runtime/runtime-limit.ts";
import { newRuntimeTable, RuntimeTable } from "../../../src/engine/runtime/runtime-table.ts";
import { Peers } from "../../../src/process/app/peers.ts";
import { RuntimeSync } from "../../../src/rule-sources/runtime/runtime-sync.ts";
import type { RuntimeStore } from "../../../src/stores/runtime-store.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const clock = new ManualClock();

test("a process that has left the register publishes nothing more: no process would remove it", async () => {
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

test("a process that closes during a poll still writes its limits to their file, and stays out of the register", async () => {
  const file = join(temporaryFolder("headgate-limits"), "limits");
  const table = new RuntimeTable(newRuntimeTable(10), 1);
  const beats: unknown[] = [];
  let answer: (head: unknown) => void = () => undefined;
  const store = {
    nowUs: () => clock.nowUs(),
    head: () => new Promise((resolve) => (answer = resolve)),
    beat: async (own: unknown) => void beats.push(own),
    async *all() {
      yield [];
    },
    write: async () => undefined,
    leave: async () => undefined,
  } as unknown as RuntimeStore;
  const log = { warn: () => undefined, info: () => undefined };
  const sync = new RuntimeSync({ table, store, file, clock, log, name: "a:1" });
  const polling = sync.poll();
  const key = keyText({ domain: "d", entries: [["k", "v"]] });
  table.put({
    key,
    atUs: 1,
    value: valueText({ change: { kind: "block", shadow: false }, untilUs: 0, note: "", who: "t" }),
  });
  await sync.close();
  answer({ epoch: "e", version: 0, count: 0, atUs: 0 });
  await polling;
  expect([beats, existsSync(file)]).toEqual([[], true]);
});

test("a store that hangs does not block callers of reports()", async () => {
  const store = { published: () => new Promise(() => undefined) } as unknown as RuntimeStore;
  expect(await new Peers(store, clock).reports()).toBeUndefined();
}, 5_000);
