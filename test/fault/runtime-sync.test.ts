// Limits at run time of several processes on one real store, whatever becomes of its data: it is emptied, it falls back to an older copy, parts
// of it are evicted, processes start again without anything, and two operators change one limit at once. What any process or the store has
// had of a caller last is what all have in the end.

import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { SystemClock } from "../../src/base/clock.ts";
import { isNewer, type KeptLimit, keep, keyText, valueText } from "../../src/engine/runtime/runtime-limit.ts";
import type { RuntimeWritten } from "../../src/engine/runtime/runtime-replica.ts";
import { RuntimeTable } from "../../src/engine/runtime/runtime-table.ts";
import { RuntimeSync } from "../../src/rule-sources/runtime/runtime-sync.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { postgresRuntimeStore } from "../../src/stores/postgres/runtime-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { redisRuntimeStore } from "../../src/stores/redis/runtime-store.ts";
import { RUNTIME_LIMITS_AT_ONCE, type RuntimeStore } from "../../src/stores/runtime-store.ts";
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
  /** Loses a part: the head, the order of changes, or some limits. */
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
  readonly table = new RuntimeTable();
  readonly sync: RuntimeSync;
  readonly #store: RuntimeStore;

  constructor(store: RuntimeStore) {
    this.#store = store;
    const unread = () => undefined;
    this.sync = new RuntimeSync({ table: this.table, store, file: undefined, clock, log, unread });
  }

  poll(): Promise<void> {
    return this.sync.poll();
  }

  /** Writes as an operator's change does. */
  async write(key: string, text: string, expectedUs: number): Promise<RuntimeWritten | undefined> {
    const atUs = Math.max(Math.floor(this.#store.nowUs()), (this.table.get(key)?.atUs ?? 0) + 1);
    const kept = keep(key, text, atUs);
    const [written] = (await this.#store.write([{ ...kept, expectedUs }])).written;
    if (written?.outcome === "written") this.table.put(kept);
    if (written?.outcome === "conflict" && written.kept !== undefined) this.table.put(written.kept);
    return written;
  }

  all(): ReadonlyMap<string, KeptLimit> {
    return mapOf([...this.table.entries()].map(([, row]) => row));
  }
}

const mapOf = (limits: readonly KeptLimit[]) =>
  new Map(limits.map(({ key, value, atUs, mark }) => [key, { key, value, atUs, mark }]));

async function stored(store: RuntimeStore): Promise<readonly KeptLimit[]> {
  const found: KeptLimit[] = [];
  for (let next: string | undefined = ""; next !== undefined; ) {
    const part: Awaited<ReturnType<RuntimeStore["all"]>> = await store.all(next);
    found.push(...part.limits);
    ({ next } = part);
  }
  return found;
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
            const writing = process.write(key, value(String(number), each.isUnset), expectedUs);
            await (each.isDuringPoll ? Promise.all([process.poll(), writing]) : writing);
          }
        }
        const newest = new Map<string, KeptLimit>();
        const note = (kept: KeptLimit) => {
          const known = newest.get(kept.key);
          if (known === undefined || isNewer(kept, known)) newest.set(kept.key, kept);
        };
        for (const process of processes) for (const kept of process.all().values()) note(kept);
        for (const kept of await stored(store)) note(kept);
        // What was evicted is missed by a process that starts.
        processes.push(new Process(store));
        for (let round = 0; round < 4; round++) for (const process of processes) await process.poll();
        for (const process of processes) expect(process.all()).toEqual(newest);
        expect(mapOf(await stored(store))).toEqual(newest);
        const { version } = await store.head();
        for (const process of processes) expect(process.sync.version).toBe(version);
      }),
      { numRuns: runs(40) },
    );
  });

  test("a process catches up from the changes while others write, without reading everything", async () => {
    await rig.empty();
    const { store } = rig;
    const of = (from: number, count: number) =>
      Array.from({ length: count }, (_, i) => keyText({ domain: "d", entries: [["k", String(from + i)]] }));
    let atUs = Math.floor(store.nowUs());
    const write = (keys: readonly string[]) =>
      store.write(keys.map((key) => ({ ...keep(key, value("", false), ++atUs), expectedUs: undefined })));
    const { head: first } = await write(of(0, 1));
    for (let from = 1; from < 2_000; from += 500) await write(of(from, 500));
    const head = await store.head();
    const found: string[] = [];
    for (let { version: after } = first; after < head.version; ) {
      const [{ limits, upTo }] = await Promise.all([
        store.changes(after, head.version),
        write(of(3_000 + found.length, 9)),
      ]);
      expect(limits.length).toBeLessThanOrEqual(RUNTIME_LIMITS_AT_ONCE);
      found.push(...limits.map(({ key }) => key));
      after = upTo;
    }
    expect(found).toEqual(of(1, found.length));
    expect(found.length).toBeGreaterThanOrEqual(1_999);
  });

  test("of two writers of one limit the second gets what is there", async () => {
    await rig.empty();
    const [key = ""] = KEYS;
    const [one, other] = [new Process(rig.store), new Process(rig.store)];
    const outcomes = await Promise.all([
      one.write(key, value("one", false), 0),
      other.write(key, value("other", false), 0),
    ]);
    expect(outcomes.map((each) => each?.outcome).toSorted()).toEqual(["conflict", "written"]);
    expect(one.all()).toEqual(other.all());
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
  if (store.aside.kind !== "redis") throw new Error("expected Redis");
  return {
    store: redisRuntimeStore(store.aside, 1_000_000),
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
      if (part === 0) await command("hdel", `${PREFIX}callers`, "");
      else if (part < 4) await command("del", `${PREFIX}${part === 1 ? "changes" : "callers"}`);
      else await command("hdel", `${PREFIX}callers`, KEYS[part - 4] as string);
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
  const empty = async () => void (await server.query("TRUNCATE headgate.runtime_limit"));
  await server.query("CREATE TABLE headgate.saved (LIKE headgate.runtime_limit)");
  if (store.aside.kind !== "postgres") throw new Error("expected PostgreSQL");
  return {
    store: postgresRuntimeStore(store.aside, 1_000_000),
    empty,
    async save() {
      await server.query("TRUNCATE headgate.saved");
      await server.query("INSERT INTO headgate.saved SELECT * FROM headgate.runtime_limit");
    },
    async restore() {
      await empty();
      await server.query("INSERT INTO headgate.runtime_limit SELECT * FROM headgate.saved");
    },
    async evict(part) {
      const key = part === 0 ? "key = ''" : "key = (SELECT min(key) FROM headgate.runtime_limit WHERE key <> '')";
      await server.query(`DELETE FROM headgate.runtime_limit WHERE ${key}`);
    },
  };
}
