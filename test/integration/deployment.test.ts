// Processes that share a store: any of them shows all of them, and nobody asks another process.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { REPORT_BYTES_MAX } from "../../src/stores/process-register.ts";
import { runProgram } from "../support/run-program.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { startPostgres, startRedis } from "../support/shared-stores.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const RULES = `domain: edge
descriptors:
  - { key: user, rate_limit: { requests_per_unit: 3, unit: day, algorithm: fixed_window } }
  - { key: free, rate_limit: { requests_per_unit: 100, unit: day, algorithm: fixed_window } }
`;
const PATIENCE = { timeout: 30_000 };

interface Process extends ServiceProcess {
  readonly rulesFile: string;
  readonly server: string;
  ask(value: string, times: number, key?: string): Promise<void>;
  page<Answer>(path: string): Promise<Answer>;
}

interface State {
  readonly instance: string;
  readonly conditions: readonly { readonly id: string; readonly seen_by?: readonly string[] }[];
  readonly processes: readonly Record<string, unknown>[] | null;
}

interface Top {
  readonly asked: number;
  readonly processes?: number;
  readonly keys: readonly { readonly key: string; readonly asked: number; readonly refused: number }[];
}

async function start(env: Readonly<Record<string, string>>): Promise<Process> {
  const folder = temporaryFolder("headgate-rules");
  const rulesFile = join(folder, "rules.yaml");
  writeFileSync(rulesFile, RULES);
  const service = await startService({ ...env, RULES_DIR: folder });
  const server = `127.0.0.1:${service.httpPort}`;
  return {
    ...service,
    rulesFile,
    server,
    async ask(value, times, key = "user") {
      const body = JSON.stringify({ domain: "edge", descriptors: [{ entries: [{ key, value }] }] });
      for (let i = 0; i < times; i++) await fetch(`http://${server}/json`, { method: "POST", body });
    },
    page: async <Answer>(path: string) => (await fetch(`http://${server}${path}`)).json() as Answer,
  };
}

const countsOf = (top: Top) => top.keys.map(({ key, asked, refused }) => [key, asked, refused]);
const ALICE = "{edge|user=alice}|fw/86400";

// Promise(operators): The page and `headgate top` of any process show all that share its store.
test.each([
  { name: "Redis", startStore: startRedis },
  { name: "PostgreSQL", startStore: startPostgres },
])(
  "$name: any process shows the calls, keys and troubles of all, and forgets those that end",
  async ({ startStore }) => {
    const store = await startStore();
    const env = { ...store.env, STORE_DEADLINE: "10s" };
    const [a, b, c] = (await Promise.all([start(env), start(env), start(env)])) as [Process, Process, Process];
    const state = () => c.page<State>("/state");
    const processes = async () => (await state()).processes ?? [];
    await expect
      .poll(async () => (await processes()).map(({ status }) => status), PATIENCE)
      .toEqual(Array(3).fill("well"));
    await a.ask("alice", 5);
    await b.ask("alice", 4);
    await c.ask("bob", 1);

    await expect.poll(async () => countsOf(await c.page<Top>("/top")), PATIENCE).toEqual([[ALICE, 9, 6]]);
    expect(await c.page<Top>("/top?window=hour&by=asked")).toMatchObject({ asked: 10, processes: 3 });
    const sums = async () => {
      const { calls } = await c.page<{ calls: Record<string, number[]> }>("/history");
      return ["allowed", "refused"].map((name) => calls[name]?.reduce((sum, count) => sum + count, 0));
    };
    await expect.poll(sums, PATIENCE).toEqual([4, 6]);
    const { instance } = await state();
    expect((await processes()).filter((each) => each.answers_here)).toMatchObject([{ instance, per_second: {} }]);

    const sum = async (servers: readonly Process[]) => {
      const { out } = await runProgram(["top", "--json", "-s", servers.map(({ server }) => server).join()]);
      const top = JSON.parse(out) as Top;
      return [top.processes, countsOf(top)];
    };
    expect(await sum([a, b])).toEqual([2, [[ALICE, 9, 6]]]);
    // One process under two names.
    expect(await sum([a, { ...a, server: `localhost:${a.httpPort}` }])).toEqual([1, [[ALICE, 5, 2]]]);

    writeFileSync(b.rulesFile, "domain: [");
    const { instance: nameOfB } = await b.page<State>("/state");
    const refusing = async () => (await state()).conditions.filter(({ id }) => id === "rules refused");
    await expect.poll(refusing, PATIENCE).toMatchObject([{ seen_by: [nameOfB] }]);
    expect((await c.page<State>("/state?scope=process")).conditions).toEqual([]);

    a.signal("SIGKILL");
    await expect.poll(processes, PATIENCE).toHaveLength(2);
    await b.stop();
    // It has said so: nobody waits until it has been silent for long.
    await expect.poll(processes, { timeout: 5_000 }).toMatchObject([{ instance, answers_here: true }]);
    expect(await sums()).toEqual([4, 6]);
    await expect.poll(async () => (await state()).conditions, PATIENCE).toEqual([]);
    await store.stop();
    await expect.poll(async () => (await state()).processes, PATIENCE).toBeNull();
    expect(countsOf(await c.page<Top>("/top?by=asked"))).toEqual([["{edge|user=bob}|fw/86400", 1, 0]]);
  },
  120_000,
);

test("processes of one name, as containers may have, are as many as they are", async () => {
  const { env } = await startRedis();
  const name = join(temporaryFolder("headgate-name"), "name.cjs");
  writeFileSync(
    name,
    `require("node:os").hostname = () => "ratelimit";
    require("node:module").syncBuiltinESMExports();
    Object.defineProperty(process, "pid", { value: 1 });`,
  );
  const both = { ...env, STORE_DEADLINE: "10s", NODE_OPTIONS: `--require ${name}` };
  const [a, b] = (await Promise.all([start(both), start(both)])) as [Process, Process];
  await a.ask("alice", 5);
  await b.ask("alice", 4);
  for (const process of [a, b])
    await expect.poll(async () => countsOf(await process.page<Top>("/top")), PATIENCE).toEqual([[ALICE, 9, 6]]);
  const processes = async () => (await a.page<State>("/state")).processes;
  expect(await processes()).toMatchObject(Array(2).fill({ instance: expect.stringMatching(/^ratelimit:1:/) }));
  expect((await processes())?.filter((each) => each.answers_here)).toHaveLength(1);
}, 60_000);

test("a process that counts no keys does not count as one whose keys are shown", async () => {
  const { env } = await startRedis();
  const counting = [start(env), start(env), start({ ...env, TOP_KEYS: "0" })];
  const [a, , c] = (await Promise.all(counting)) as [Process, Process, Process];
  await c.ask("alice", 5);
  await expect
    .poll(async () => (await a.page<State>("/state")).processes?.map(({ status }) => status), PATIENCE)
    .toEqual(Array(3).fill("well"));
  expect(await a.page<Top>("/top")).toMatchObject({ asked: 0, processes: 2 });
}, 60_000);

describe("a report", () => {
  test("of long keys is cut to what is bounded, and damaged ones of others are passed over", async () => {
    const store = await startRedis();
    const [a, b] = (await Promise.all([start(store.env), start(store.env)])) as [Process, Process];
    // Twenty that are refused most and twenty that ask most, each as long as a key is kept.
    for (let i = 10; i < 30; i++) {
      await a.ask(`${i}${"é".repeat(110)}`, 4);
      await a.ask(`${i}${"é".repeat(110)}`, 5, "free");
    }
    await expect.poll(async () => (await b.page<Top>("/top")).processes, PATIENCE).toBe(2);
    await expect.poll(async () => (await b.page<Top>("/top")).asked, PATIENCE).toBe(180);
    const [redis] = store.redis;
    const key = "{headgate:limits}:reports";
    const reports = (await redis?.command("hvals", key)) as readonly string[];
    expect(reports).toHaveLength(2);
    const bytes = reports.map((report) => Buffer.byteLength(report)).sort((one, other) => one - other);
    expect(bytes[1]).toBeGreaterThan(REPORT_BYTES_MAX / 4);
    expect(bytes[1]).toBeLessThanOrEqual(REPORT_BYTES_MAX);
    const report = JSON.parse(reports[0] ?? "") as object;
    const damaged = [
      "{",
      "[]",
      '{"form":2}',
      ...["top", "conditions", "rules"].map((name) => ({ ...report, [name]: {} })),
    ];
    for (const [i, text] of damaged.entries()) {
      // It beats, with counts that are none, for as long as this test runs.
      await redis?.command(
        "hset",
        "{headgate:limits}:processes",
        `x${i}`,
        `${Date.now() + 60_000} 0 a,,1e999,-1 x:${i}`,
      );
      await redis?.command(
        "hset",
        key,
        `x${i}`,
        typeof text === "string" ? text : JSON.stringify({ ...text, name: `x:${i}` }),
      );
    }
    await expect.poll(async () => (await b.page<State>("/state")).processes, PATIENCE).toHaveLength(2);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect((await b.page<Top>("/top")).keys.length).toBeGreaterThan(0);
    expect((await b.page<State>("/state")).processes).toHaveLength(2);
  }, 60_000);
});
