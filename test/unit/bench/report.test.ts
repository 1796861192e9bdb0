// The page and the chart that bench:report makes, from a run that is written here.

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const folder = temporaryFolder("headgate-report");

const redis = { cpuMicros: 8, bytesIn: 70, bytesOut: 50, scripts: 0.1 };
function shape(name: string, more: object): object {
  const row = {
    name,
    by: "caller",
    ratio: 6,
    ratioLeast: 5,
    ratioMost: 7,
    cpuRatio: 6,
    cpuRatioLeast: 5,
    cpuRatioMost: 7,
  };
  const costs = { yardstickPerSecond: 10_000, perSecond: 60_000, yardstickCpuMicros: 40, cpuMicros: 6 };
  return { ...row, ...costs, bytesSentPerCall: 56, bytesReadPerCall: 61, redis, ...more };
}

const file = join(folder, "run.json");
writeFileSync(
  file,
  JSON.stringify({
    command: "node bench/load/run.mjs",
    date: "2026-11-21T12:00:00.000Z",
    machine: { cpu: "A <CPU> & more", cores: 2, node: "v20.20.2", commit: "abc1234", redis: "7.0", h2load: "1.52.0" },
    results: {
      rounds: 3,
      seconds: 2,
      pinned: true,
      busy: { before: { load1: 0.1, cores: 2 }, after: { load1: 1.5, cores: 2 } },
      shapes: [
        shape("memory, hot key", { goal: 4 }),
        shape("Redis, exact, 10,000 keys", { goal: 9, perSecond: 50_000 }),
        shape("Redis, hot key, lease", {
          goal: 7,
          cpuRatio: 8,
          perSecond: 200_000,
          redis: { ...redis, cpuMicros: 0.01 },
        }),
        shape("Redis, hot key, refused", { perSecond: 200_000, redis: { ...redis, cpuMicros: 0.01 } }),
        shape("memory, 100,000 keys, uniform", { perSecond: 100_000, redis: undefined }),
        shape("memory, asked by Envoy", { by: "envoy" }),
      ],
      tails: ["memory, hot key", "Redis, exact, 10,000 keys"].map((name) => {
        const times = {
          p50Ms: 0.1,
          p99Ms: 1,
          p99MsLeast: 0.9,
          p99MsMost: 1.1,
          p999Ms: 2,
          sentP99Ms: 0.9,
          ownLateP99Ms: 0.05,
        };
        return { name, goalMs: 5, rate: 30_000, ...times, cpuMicros: 10, redis };
      }),
      ruleCounts: {
        few: "10 rules",
        many: "10,000 rules",
        growth: 1.02,
        growthLeast: 1,
        growthMost: 1.1,
        goalMost: 1.15,
      },
      besides: [
        {
          ...{ name: "Redis, 14,000 calls/s", what: "us of the store's CPU per call", standIn: "increments" },
          ...{ others: 8, own: 6, ratio: 0.75, ratioLeast: 0.7, ratioMost: 0.8, goalMost: 1 },
        },
        {
          ...{ name: "PostgreSQL, exact", what: "us of the process's CPU per call", standIn: "updates" },
          ...{ others: 10, own: 20, ratio: 2, ratioLeast: 1.9, ratioMost: 2.1, goalMost: 1.5 },
        },
      ],
      takes: [{ what: "resident per live token bucket", value: 76.4, unit: "bytes", goal: 150 }],
    },
  }),
);

function run(program: string, ...args: string[]): { status: number | null; out: string; said: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, "bench", program), file, ...args], {
    encoding: "utf8",
  });
  return { status, out: stdout, said: stderr };
}

describe("bench:report", () => {
  const { status, out, said } = run("report.mjs", "--print");

  test("finds a place on the page for each of its tables", () => {
    expect(said).toBe("");
    expect(status).toBe(0);
    const names = [...out.matchAll(/^(\w+)\n\n/gm)].map(([, name]) => name);
    expect(names).toEqual(["machine", "figures", "beside", "rest", "thumb", "fleet"]);
    const page = readFileSync(join(ROOT, "docs/performance.md"), "utf8");
    for (const name of names) {
      expect(page).toMatch(new RegExp(`<!-- ${name}: bench/report.mjs -->\n[^]*<!-- end of ${name} -->`));
    }
  });

  test("shows figures with their goals", () => {
    expect(out).toContain("| memory, hot key | 10,000 | 60,000 | 6.0 (5.0-7.0) | 4: met |");
    expect(out).toMatch(/\| Redis, exact, 10,000 keys \|.*\| 9: MISSED \|/);
    expect(out).toMatch(/\| Redis, hot key, lease \|.*\| 7: met by CPU \|/);
    expect(out).toContain("p99 from sending below 5 ms: met");
    expect(out).toMatch(/\| Redis, 14,000 calls\/s \|.*\| 8.0 \(increments\) \| 6.0 \| 0.75 .*\| at most 1: met \|/);
    expect(out).toMatch(/\| PostgreSQL, exact \|.*\| at most 1.5: MISSED \|/);
  });

  test.each([
    // 100,000 calls by processes that do half of 50,000 each.
    { name: "processes by half of what each does", row: /\| 100,000 \| all exact \| 4 \|/ },
    {
      name: "processes for leases by what those under a lease do",
      row: /\| 10,000,000 \| all leased or refused \| 100 \| 1 \|/,
    },
    { name: "no Redis for memory", row: /\| 100,000 \| memory, [^|]+ \| 2 \| 0 \| {2}\| 12 \| 0.0 \|/ },
    { name: "bytes by what a call takes", row: /\| 100,000 \| all exact \|.*\| 12 \| 12 \|/ },
  ])("plans $name", ({ row }) => {
    expect(out).toMatch(row);
  });
});

test("bench:chart draws every shape by how it met its goal, for light and dark", () => {
  const target = join(folder, "chart.svg");
  expect(run("chart.mjs", "--out", target)).toMatchObject({ status: 0, said: "" });
  const svg = readFileSync(target, "utf8");
  const drawn = [...svg.matchAll(/<rect class="(\w+)" x="384"/g)].map(([, kind]) => kind);
  expect(drawn).toEqual(["met", "missed", "byCpu", "free", "free", "free"]);
  expect(svg).toContain("memory, asked by Envoy (CPU time)");
  expect(svg).toContain("A &lt;CPU> &amp; more");
  expect(svg).toContain("prefers-color-scheme: dark");
});
