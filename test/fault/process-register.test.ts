// The register of processes when others wrote into it: entries that no process of ours has made, or that a clock was set back from.

import { beforeAll, describe, expect, test, vi } from "vitest";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import type { ProcessRegister } from "../../src/stores/process-register.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { closedWithTest } from "../support/ends.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { RedisServer } from "../support/redis-server.ts";
import { whenUp } from "../support/when-up.ts";

interface Rig {
  readonly register: ProcessRegister;
  /** Writes an entry that beat at so many milliseconds from now; undefined: at no time. */
  write(id: string, inMs: number | undefined, report: string): Promise<void>;
}

const PREFIX = "{headgate:limits}:";
const own = { id: "own", name: "host:1:a", epoch: "", version: 0, calls: [] };

async function openRedis(): Promise<Rig> {
  const server = await RedisServer.start();
  const store = closedWithTest(openRedisStore({ target: server.target(), deadlineMs: 5_000 }));
  await whenUp(store, 20_000);
  return {
    register: store.register,
    async write(id, inMs, report) {
      const at = inMs === undefined ? "soon" : Date.now() + inMs;
      await server.command("hset", `${PREFIX}processes`, id, `${at} 0 - host:2:${id}`);
      await server.command("hset", `${PREFIX}reports`, id, report);
    },
  };
}

async function openPostgres(): Promise<Rig> {
  const server = await PostgresServer.start();
  const store = closedWithTest(openPostgresStore({ target: server.target(), deadlineMs: 5_000 }));
  // The register has a connection of its own.
  await vi.waitFor(() => store.register.beat(undefined), { timeout: 20_000 });
  return {
    register: store.register,
    async write(id, inMs, report) {
      const at = inMs === undefined ? "'infinity'::timestamptz" : `clock_timestamp() + interval '${inMs} ms'`;
      await server.query(`INSERT INTO headgate.runtime_process VALUES ('', $1, $2, ${at}, $3)`, [
        id,
        `0 - host:2:${id}`,
        report,
      ]);
    },
  };
}

describe.each([
  { name: "Redis", open: openRedis },
  { name: "PostgreSQL", open: openPostgres },
])("the register in $name", ({ open }) => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await open();
  }, 60_000);

  // Promise(limits): An entry of a process with a time that can't be, or a report that is too long, neither stays nor is read.
  test("keeps no entry with a time that can't be, and reads no report that is too long", async () => {
    await rig.write("live", -1_000, "report of live");
    await rig.write("long", 0, "x".repeat(32_769));
    for (const [id, inMs] of [
      ["past", -20_000],
      ["future", 3_600_000],
      ["never", undefined],
    ] as const)
      await rig.write(id, inMs, `report of ${id}`);
    const { all } = await rig.register.beat(own);
    expect(all.map(({ id }) => id).toSorted()).toEqual(["live", "long", "own"]);
    await rig.register.publish("own", "report of own");
    expect((await rig.register.published()).toSorted()).toEqual(["report of live", "report of own"]);
  });
});
