// The service with MEMORY_SNAPSHOT as processes of its own: what was decided stands after a restart, however the process ended.

import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { requireProgram } from "../support/built-program.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const RULES = `
domain: edge
descriptors:
  - key: day
    rate_limit: { requests_per_unit: 5, unit: day, algorithm: fixed_window }
  - key: sliding
    rate_limit: { requests_per_unit: 5, unit: day, algorithm: sliding_window }
  - key: log
    rate_limit: { requests_per_unit: 5, unit: day, algorithm: sliding_log }
  - key: bucket
    rate_limit: { requests_per_unit: 5, unit: day, algorithm: token_bucket }
`;
/** What envoyproxy/ratelimit reads: with COMPATIBILITY_MODE its limits are counters. */
const REFERENCE_RULES = `
domain: edge
descriptors:
  - key: day
    rate_limit: { requests_per_unit: 5, unit: year }
`;
const KEYS = ["day", "sliding", "log", "bucket"];

interface Placed {
  readonly folder: string;
  readonly file: string;
  readonly env: Record<string, string>;
}

/** A folder with rules and a place for the snapshot. */
function place(rules = RULES, env: Record<string, string> = {}): Placed {
  const folder = temporaryFolder("headgate-snapshot");
  const rulesDir = join(folder, "rules");
  const data = join(folder, "data");
  for (const one of [rulesDir, data]) mkdirSync(one);
  writeFileSync(join(rulesDir, "rules.yaml"), rules);
  const file = join(data, "buckets");
  return { folder, file, env: { RULES_DIR: rulesDir, MEMORY_SNAPSHOT: file, ...env } };
}

/** Takes one hit; resolves to what is left, -1 if it was refused. */
async function hit({ httpPort }: ServiceProcess, key: string, value = "a", hits = 1): Promise<number> {
  const body = JSON.stringify({ domain: "edge", descriptors: [{ entries: [{ key, value }] }], hitsAddend: hits });
  const answer = await fetch(`http://127.0.0.1:${httpPort}/json`, { method: "POST", body });
  const { overallCode, statuses } = (await answer.json()) as Answer;
  return overallCode === "OK" ? (statuses[0]?.limitRemaining ?? 0) : -1;
}

interface Answer {
  readonly overallCode: string;
  readonly statuses: readonly { readonly limitRemaining?: number }[];
}

async function metric({ httpPort }: ServiceProcess, series: string): Promise<number | undefined> {
  const page = await (await fetch(`http://127.0.0.1:${httpPort}/metrics`)).text();
  const line = page.split("\n").find((text) => text.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

const written = (service: ServiceProcess) => metric(service, 'headgate_snapshots_total{outcome="written"}');

beforeAll(requireProgram);

describe("a memory store with a snapshot", () => {
  // Promise(restarts): A restart changes no answer, with every algorithm, holds and COMPATIBILITY_MODE.
  test("goes on after SIGTERM exactly where it was, with every algorithm and through several restarts", async () => {
    const { env, file } = place();
    const left = new Map(KEYS.map((key) => [key, 5]));
    for (let round = 0; round < 3; round++) {
      const service = await startService(env);
      for (const key of KEYS) {
        for (let hits = 0; hits < 2; hits++) {
          const expected = (left.get(key) as number) - 1;
          expect([key, await hit(service, key)]).toEqual([key, Math.max(-1, expected)]);
          left.set(key, Math.max(0, expected));
        }
      }
      expect(await service.stop()).toBe(0);
      expect(statSync(file).mode & 0o777).toBe(0o600);
    }
    expect([...left.values()]).toEqual([0, 0, 0, 0]);
    expect(readdirSync(join(file, ".."))).toEqual(["buckets"]);
  });

  // Promise(restarts): A restart changes no answer, with every algorithm, holds and COMPATIBILITY_MODE.
  test("keeps the counters of COMPATIBILITY_MODE", async () => {
    const { env } = place(REFERENCE_RULES, { COMPATIBILITY_MODE: "true" });
    const first = await startService(env);
    expect(await hit(first, "day", "a", 4)).toBe(1);
    expect(await first.stop()).toBe(0);
    const second = await startService(env);
    expect([await hit(second, "day"), await hit(second, "day")]).toEqual([0, -1]);
    await second.stop();
  });

  // Promise(restarts): A crash loses what was decided since the last snapshot, and no more.
  test("loses with SIGKILL what was decided since the last snapshot, and no more", async () => {
    const { env, file } = place(RULES, { MEMORY_SNAPSHOT_INTERVAL: "1s" });
    const first = await startService(env);
    for (let hits = 0; hits < 3; hits++) await hit(first, "day");
    const before = (await written(first)) ?? 0;
    // The next but one is begun after those hits.
    await expect.poll(() => written(first)).toBeGreaterThanOrEqual(before + 2);
    await hit(first, "day", "later");
    first.signal("SIGKILL");
    await first.ended;
    expect(existsSync(`${file}.lock`)).toBe(true);
    const second = await startService(env);
    expect(await hit(second, "day")).toBe(1);
    expect([3, 4]).toContain(await hit(second, "day", "later"));
    expect(await metric(second, "headgate_snapshot_age_seconds")).toBeGreaterThan(0);
    await second.stop();
  });

  // Promise(restarts): One process at a time uses a snapshot, and never overwrites another's.
  test("is used by one process at a time: a second one does not start and says who has it", async () => {
    const { env, file } = place();
    const first = await startService(env);
    await hit(first, "day");
    await expect(startService(env)).rejects.toThrow(
      new RegExp(`CONFIG_SETTINGS: MEMORY_SNAPSHOT: expected .*${file}, in use by process ${first.pid} on `),
    );
    expect(await hit(first, "day")).toBe(3);
    await first.stop();
  });

  // Promise(restarts): A snapshot that can't be used is kept; the process says why and starts empty.
  test("starts empty from a file that is damaged or foreign, says why, and keeps that file", async () => {
    const { env, file } = place();
    const first = await startService(env);
    await hit(first, "day");
    await first.stop();
    const cut = readFileSync(file).subarray(0, -20);
    writeFileSync(file, cut);
    const second = await startService(env);
    expect(await hit(second, "day")).toBe(4);
    const warning = second.log.find((line) => line.includes("can't use the snapshot"));
    expect(warning).toMatch(
      /expected a checksum of what follows at byte \d+, got another: the file was cut or changed/,
    );
    expect(await metric(second, 'headgate_snapshots_total{outcome="refused"}')).toBe(1);
    await second.stop();
    expect(readFileSync(`${file}.refused`)).toEqual(cut);
    expect(existsSync(file)).toBe(true);
  });

  // Promise(restarts): Calls are decided whatever becomes of snapshots.
  test("decides without a folder to write to, says so, and writes once there is one", async () => {
    const { env, folder } = place();
    const file = join(folder, "not-there", "buckets");
    const service = await startService({ ...env, MEMORY_SNAPSHOT: file, MEMORY_SNAPSHOT_INTERVAL: "1s" });
    expect(await hit(service, "day")).toBe(4);
    const readiness = async () => (await fetch(`http://127.0.0.1:${service.httpPort}/readyz`)).json();
    expect(await readiness()).toMatchObject({
      status: "ready, degraded",
      degraded: { snapshot: expect.stringContaining("ENOENT") },
    });
    expect(await metric(service, 'headgate_snapshots_total{outcome="failed"}')).toBeGreaterThanOrEqual(1);
    mkdirSync(join(folder, "not-there"));
    await expect.poll(readiness).toMatchObject({ status: "ready" });
    const config = await (await fetch(`http://127.0.0.1:${service.httpPort}/config`)).json();
    expect(config).toMatchObject({ snapshot: { file, last_error: null } });
    await service.stop();
    expect(existsSync(file)).toBe(true);
  });
});
