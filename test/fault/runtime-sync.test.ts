// Limits at run time of several processes on one real store, whatever becomes of its data: it is emptied, it falls back to an older copy, parts
// of it are evicted, processes start again without anything, and two operators change one limit at once. What any process or the store has
// had of a caller last is what all have in the end.

import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { SystemClock } from "../../src/engine/base/clock.ts";
import { type KeptLimit, keyText, valueText } from "../../src/engine/runtime/runtime-limit.ts";
import { newRuntimeTable, RuntimeTable } from "../../src/engine/runtime/runtime-table.ts";
import { RuntimeSync, writeThrough } from "../../src/rule-sources/runtime/runtime-sync.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import type { RuntimeStore } from "../../src/stores/runtime-store.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { RedisServer } from "../support/redis-server.ts";
import { runs } from "../support/runs.ts";
import { whenUp } from "../support/when-up.ts";

/** A store, and what can become of its data. */
interface Rig {
  readonly store: RuntimeStore;
  empty(): Promise<void>;
  save(): Promise<void>;
  restore(): Promise<void>;
  /** Loses a part: the head, the history, or some limits. */
  evict(part: number): Promise<void>;
}

const PREFIX = "{headgate:limits}:";
const PROCESSES = 3;
/** No busy machine may be taken for a store that is away. */
const PATIENCE_MS = 20_000;
const KEYS = ["a", "b", "c", "d"].map((value) => keyText({ domain: "d", entries: [["k", value]] }));
const clock = new SystemClock();
const log = { warn: () => undefined, info: () => undefined };
const value = (note: string, isUnset: boolean) =>
  valueText({ change: isUnset ? { kind: "none" } : { kind: "block", shadow: false }, untilUs: 0, note, who: "t" });

class Process {
  readonly table: RuntimeTable;
  readonly #sync: RuntimeSync;

  constructor(store: RuntimeStore, limitsMax = 100) {
    this.table = new RuntimeTable(newRuntimeTable(limitsMax), 0);
    this.#sync = new RuntimeSync({ table: this.table, store, file: undefined, clock, log, name: "host" });
  }

  poll(): Promise<void> {
    return this.#sync.poll();
  }

  all(): ReadonlyMap<string, KeptLimit> {
    const places = [...this.table.places()].filter((place) => this.table.isCurrent(place));
    return new Map(places.map((place) => [this.table.kept(place).key, this.table.kept(place)]));
  }
}

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      what: fc.constant("set" as const),
      by: fc.nat(),
      of: fc.nat(),
      isUnset: fc.boolean(),
      isBlind: fc.boolean(),
      isDuringPoll: fc.boolean(),
    }),
  },
  { weight: 6, arbitrary: fc.record({ what: fc.constant("poll" as const), by: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constantFrom("empty" as const, "save" as const, "restore" as const) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant("evict" as const), part: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant("start" as const), by: fc.nat() }) },
);

describe.each([
  { name: "Redis", open: openRedis },
  { name: "PostgreSQL", open: openPostgres },
])("$name", ({ open }) => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await open();
  }, 60_000);

  test("what is lost in the store never lifts a block, and no unset is undone", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
        await rig.empty();
        await rig.save();
        const { store } = rig;
        const processes = Array.from({ length: PROCESSES }, () => new Process(store));
        for (const [number, each] of steps.entries()) {
          const by = "by" in each ? each.by % PROCESSES : 0;
          const process = processes[by] as Process;
          if (each.what === "poll") await process.poll();
          else if (each.what === "start") processes[by] = new Process(store);
          else if (each.what === "evict") await rig.evict(each.part);
          else if (each.what !== "set") await rig[each.what]();
          else {
            const key = KEYS[each.of % KEYS.length] as string;
            const expectedUs = each.isBlind ? 7 : (process.all().get(key)?.atUs ?? 0);
            const change = { key, value: value(String(number), each.isUnset), expectedUs, atUs: undefined };
            const writing = writeThrough({ store, table: process.table }, [change]);
            await (each.isDuringPoll ? Promise.all([process.poll(), writing]) : writing);
          }
        }
        const newest = new Map<string, KeptLimit>();
        const note = (kept: KeptLimit) => {
          if (kept.atUs > (newest.get(kept.key)?.atUs ?? 0)) newest.set(kept.key, kept);
        };
        for (const process of processes) for (const kept of process.all().values()) note(kept);
        for await (const part of store.all()) part.forEach(note);
        // What was evicted is missed by a process that starts.
        processes.push(new Process(store));
        for (let round = 0; round < 4; round++) for (const process of processes) await process.poll();
        for (const process of processes) expect(process.all()).toEqual(newest);
        const stored: KeptLimit[] = [];
        for await (const part of store.all()) stored.push(...part);
        expect(new Map(stored.map((kept) => [kept.key, kept]))).toEqual(newest);
        const { all: reports } = await store.beat(undefined);
        const head = await store.head();
        expect(
          reports.filter(({ epoch, version }) => epoch === head.epoch && version === head.version).length,
        ).toBeGreaterThanOrEqual(PROCESSES);
      }),
      { numRuns: runs(40) },
    );
  });

  test("a process without room for all has as many as it can, says so, and still takes changes of those", async () => {
    await rig.empty();
    const changes = KEYS.map((key) => ({ key, value: value("", false), expectedUs: 0, atUs: undefined }));
    await rig.store.write(changes);
    const process = new Process(rig.store, 1);
    await expect(process.poll()).rejects.toThrow("no room for 2 of the store's limits; RUNTIME_LIMITS_MAX is too low");
    // It confirms nothing.
    expect((await rig.store.beat(undefined)).all).toContainEqual(expect.objectContaining({ epoch: "", version: 0 }));
    const [key = ""] = [...process.all().keys()];
    expect(process.all().size).toBe(2);
    await rig.store.write([{ key, value: value("new", true), expectedUs: undefined, atUs: undefined }]);
    await expect(process.poll()).rejects.toThrow("no room");
    expect(process.all().get(key)?.value).toBe(value("new", true));
  });

  test("a process catches up from the history while others write, without reading everything", async () => {
    await rig.empty();
    const of = (from: number, count: number) =>
      Array.from({ length: count }, (_, i) => keyText({ domain: "d", entries: [["k", String(from + i)]] }));
    const write = (keys: readonly string[]) =>
      rig.store.write(keys.map((key) => ({ key, value: value("", false), expectedUs: undefined, atUs: undefined })));
    await write(of(0, 1));
    for (let from = 1; from < 2_000; from += 500) await write(of(from, 500));
    const { store } = rig;
    const head = await store.head();
    const [changes] = await Promise.all([
      store.changesAfter(1, head),
      ...[0, 1, 2, 3].map((i) => write(of(i * 300, 300))),
    ]);
    expect(changes?.slice(0, 1_999).map(({ key }) => key)).toEqual(of(1, 1_999));
  });

  test("of two writers of one limit the second gets what is there; the history has every change", async () => {
    await rig.empty();
    const [key = ""] = KEYS;
    const set = (note: string) => rig.store.write([{ key, value: value(note, false), expectedUs: 0, atUs: undefined }]);
    const outcomes = (await Promise.all([set("one"), set("other")])).map(({ written }) => written[0]);
    expect(outcomes.map((each) => each?.outcome).toSorted()).toEqual(["conflict", "written"]);
    const [first, second] = outcomes.map((each) => each !== undefined && "kept" in each && each.kept);
    expect(first).toEqual(second);
    const kept = (await rig.store.write([{ key, value: value("", true), expectedUs: undefined, atUs: undefined }]))
      .written[0];
    expect(await rig.store.history(key, 10)).toMatchObject([
      {
        kept: kept !== undefined && "kept" in kept && kept.kept,
        before: first === undefined || first === false ? undefined : first.value,
      },
      { kept: first, before: "" },
    ]);
  });
});

async function openRedis(): Promise<Rig> {
  const server = await RedisServer.start();
  const store = openRedisStore({ target: server.target(), deadlineMs: 1_000, clock, silenceMsMax: PATIENCE_MS });
  expect(await whenUp(store, 20_000)).toBe(true);
  const command = (...args: [string, ...(string | Buffer)[]]) => server.commandForBytes(...args);
  let saved: (readonly [string, Buffer])[] = [];
  const keys = async () =>
    ((await command("keys", "*")) as Buffer[])
      .map(String)
      .filter((key) => key.startsWith(PREFIX) && key !== `${PREFIX}processes`);
  return {
    store: store.runtime,
    async empty() {
      await command("flushall");
    },
    async save() {
      saved = await Promise.all(
        (await keys()).map(async (key) => [key, (await command("dump", key)) as Buffer] as const),
      );
    },
    async restore() {
      await command("flushall");
      for (const [key, dump] of saved) await command("restore", key, "0", dump);
    },
    async evict(part) {
      await command("del", `${PREFIX}${part === 0 ? "head" : part === 1 ? "history" : "limits"}`);
    },
  };
}

async function openPostgres(): Promise<Rig> {
  const server = await PostgresServer.start();
  const store = openPostgresStore({
    target: server.target(),
    deadlineMs: 1_000,
    clock,
    connections: 1,
    silenceMsMax: PATIENCE_MS,
  });
  expect(await whenUp(store, 20_000)).toBe(true);
  const tables = ["head", "limit", "event"].map((name) => `headgate.runtime_${name}`);
  const empty = async () => void (await server.query(`TRUNCATE ${tables.join()}`));
  for (const table of tables) await server.query(`CREATE TABLE ${table}_saved (LIKE ${table})`);
  return {
    store: store.runtime,
    empty,
    async save() {
      for (const table of tables) {
        await server.query(`TRUNCATE ${table}_saved`);
        await server.query(`INSERT INTO ${table}_saved SELECT * FROM ${table}`);
      }
    },
    async restore() {
      await empty();
      for (const table of tables) await server.query(`INSERT INTO ${table} SELECT * FROM ${table}_saved`);
    },
    async evict(part) {
      const keyed = "WHERE key = (SELECT min(key) FROM headgate.runtime_limit)";
      await server.query(
        part < 2 ? `DELETE FROM ${tables[part === 0 ? 0 : 2]}` : `DELETE FROM headgate.runtime_limit ${keyed}`,
      );
    },
  };
}
