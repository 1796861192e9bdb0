// What a process tells the others until it closes, and how long it waits for what they have published.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { keep, keyText, valueText } from "../../../../src/engine/runtime/runtime-limit.ts";
import { RuntimeTable } from "../../../../src/engine/runtime/runtime-table.ts";
import { Peers } from "../../../../src/process/app/peers.ts";
import { Presence } from "../../../../src/process/app/presence.ts";
import { RuntimeSync } from "../../../../src/rule-sources/runtime/runtime-sync.ts";
import { memoryRuntimeStore } from "../../../../src/stores/memory/runtime-store.ts";
import type { ProcessRegister } from "../../../../src/stores/process-register.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const clock = new ManualClock();

const limits = { version: 0, calls: [] };

test("a process that has left the register reports and publishes nothing more: no process would remove it", async () => {
  const told: unknown[] = [];
  const register = {
    beat: async (own: unknown) => ({ all: told.push(own) }),
    publish: async (_: string, report: string) => void told.push(report),
    leave: async () => undefined,
  } as unknown as ProcessRegister;
  const ignore = () => undefined;
  const presence = new Presence({
    register,
    name: "a:1",
    before: async () => ignore,
    report: () => limits,
    heard: ignore,
  });
  await presence.publish("first");
  await presence.close();
  await presence.publish("second");
  await presence.start();
  expect(told).toEqual(["first"]);
});

test.each(["during a poll", "right after a change"])(
  "a process that closes %s writes its limits to their file",
  async (when) => {
    const file = join(temporaryFolder("headgate-limits"), "limits");
    const table = new RuntimeTable();
    let answer: () => void = () => undefined;
    const hangs = new Promise<void>((resolve) => (answer = resolve));
    const store = { ...memoryRuntimeStore(table, clock, 10) };
    if (when === "during a poll") store.head = () => hangs.then(() => ({ version: 0, digest: table.digest }));
    const log = { warn: () => undefined, info: () => undefined };
    const sync = new RuntimeSync({ table, store, file, clock, log, unread: () => undefined });
    const polling = sync.poll();
    if (when !== "during a poll") await polling;
    const value = valueText({ change: { kind: "block", shadow: false }, untilUs: 0, note: "", who: "t" });
    table.put(keep(keyText({ domain: "d", entries: [["k", "v"]] }), value, 1));
    const closing = sync.close();
    answer();
    await closing;
    expect(existsSync(file)).toBe(true);
  },
);

test("a store that hangs does not block callers of reports()", async () => {
  const store = { published: () => new Promise(() => undefined) } as unknown as ProcessRegister;
  expect(await new Peers(store, clock).reports()).toBeUndefined();
}, 5_000);
