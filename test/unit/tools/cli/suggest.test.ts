// `headgate suggest` on real files: rules that `check` accepts and `simulate` confirms.

import { writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import type { SimulationReport } from "../../../../src/tools/simulate/report.ts";
import { runProgram } from "../../../support/run-program.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const folder = temporaryFolder("headgate-suggest");

/** Caller n calls n times at once, in each of two minutes. */
function callsOf(domain: string, keys: readonly string[], callers: number): string {
  const lines: string[] = [];
  for (let minute = 0; minute < 2; minute++) {
    for (let caller = 1; caller <= callers; caller++) {
      const at = new Date(Date.UTC(2026, 0, 1, 0, minute) + caller * 10).toISOString();
      const entries = keys.map((key) => ({ key, value: `value ${caller}` }));
      const line = JSON.stringify({ at, domain, descriptors: [{ entries }] });
      for (let i = 0; i < caller; i++) lines.push(line);
    }
  }
  return `${lines.join("\n")}\n`;
}

async function simulated(rules: string, calls: string): Promise<SimulationReport> {
  return JSON.parse((await runProgram(["simulate", "--rules", rules, "--json", calls])).out) as SimulationReport;
}

const one = join(folder, "one.jsonl");
writeFileSync(one, callsOf("edge", ["user"], 100));

test("makes a file that check accepts and simulate confirms", async () => {
  const { out, exitCode } = await runProgram(["suggest", one, "--percentile", "90", "--headroom", "1"]);
  expect(exitCode).toBe(0);
  expect(out).toBe(`# Suggested by headgate suggest from ${one}:
# limits under which 90 % of callers would never have been refused, times 1.
domain: edge
descriptors:
  # 10100 calls of 100 callers; 10 would have been refused at some time, 110 calls in all
  - key: user
    rate_limit: { requests_per_unit: 90, unit: minute, algorithm: token_bucket, burst: 90 }
`);
  expect(out).not.toContain("value 1");
  const rules = join(folder, "suggested.yaml");
  writeFileSync(rules, out);
  expect((await runProgram(["check", "--strict", rules])).exitCode).toBe(0);
  expect((await simulated(rules, one)).limits[0]).toMatchObject({ callers: 100, callers_refused: 10, refused: 110 });
});

test("makes a file per domain, and rules below rules", async () => {
  const both = join(folder, "both.jsonl");
  writeFileSync(both, callsOf("edge", ["plan", "user"], 9) + callsOf("edge", ["plan"], 9) + callsOf("a b", ["yes"], 9));
  const printed = await runProgram(["suggest", both]);
  expect(printed.exitCode).toBe(2);
  expect(printed.err).toContain("a file holds one domain, and there are 2 (edge, a b): give --out");
  const out = join(folder, "rules");
  const { out: names, exitCode } = await runProgram(["suggest", both, "--out", out]);
  expect(exitCode).toBe(0);
  expect(names).toBe(`${join(out, "edge.yaml")}\n${join(out, "a_b.yaml")}\n`);
  const { out: checked } = await runProgram(["check", "--strict", out]);
  expect(checked).toContain("ok: 2 domains, 3 rules, 3 limits in 2 files");
  const again = await runProgram(["suggest", both, "--out", out]);
  expect(again.exitCode).toBe(2);
  expect(again.err).toContain(`can't write the suggested rules to ${join(out, "edge.yaml")}: it exists already`);
});

/** Calls that use 1 to 200, one a second; every fourth states 100, one has no end and one no number. */
function streamsOf(settle: string, tookSeconds: number): string {
  const line = (seconds: number, entries: Record<string, string>, hits?: number) => ({
    at: new Date(Date.UTC(2026, 0, 1) + seconds * 1_000).toISOString(),
    domain: "llm",
    descriptors: [
      {
        entries: Object.entries(entries).map(([key, value]) => ({ key, value })),
        ...(hits === undefined ? {} : { hits_addend: hits }),
      },
    ],
  });
  const lines = Array.from({ length: 200 }, (_, i) => {
    const held = { tenant: "acme", id: `r${i}`, ...(i % 4 === 3 ? { most: "100" } : {}) };
    const begin = line(i, held);
    if (i === 0) return [begin];
    return [begin, line(i + tookSeconds, { ...held, [settle]: "x" }, i === 1 ? undefined : i + 1)];
  });
  const inOrder = lines.flat().sort((a, b) => a.at.localeCompare(b.at));
  return inOrder.map((one) => `${JSON.stringify(one)}\n`).join("");
}

test("asks whether numbers are costs, and whether a key is an address", async () => {
  const calls = join(folder, "weights.jsonl");
  const numbered = (keys: readonly string[]) => callsOf("edge", keys, 9).replaceAll('"value ', '"');
  writeFileSync(
    calls,
    numbered(["plan", "weight"]) +
      callsOf("edge", ["user", "cost"], 9) +
      numbered(["a", "user_id"]) +
      numbered(["client_ip"]),
  );
  const { out } = await runProgram(["suggest", calls]);
  expect(out.match(/# (?:all values|addresses).*/g)).toEqual([
    "# all values of weight are numbers: a cost? Then remove this rule, and write cost: { entry: weight } at the one above",
    "# addresses? address: { ipv6: 64 } makes one caller of all that a host has",
  ]);
});

test("makes no hidden file for a domain that begins with a dot", async () => {
  const calls = join(folder, "dots.jsonl");
  writeFileSync(calls, [".", "..", ".git", "a.b"].map((domain) => callsOf(domain, ["user"], 2)).join(""));
  const out = join(folder, "dotted");
  const { out: names } = await runProgram(["suggest", calls, "--out", out]);
  expect(
    names
      .trim()
      .split("\n")
      .map((name) => basename(name))
      .toSorted(),
  ).toEqual(["_.yaml", "_..yaml", "_git.yaml", "a.b.yaml"].toSorted());
  expect((await runProgram(["check", out])).out).toContain("4 domains");
});

test("proposes holds from what calls have used, which check accepts and simulate confirms", async () => {
  const streams = join(folder, "streams.jsonl");
  writeFileSync(streams, streamsOf("settle", 2));
  const options = ["--hold", "id=id,estimate=most", "--percentile", "90", "--headroom", "1.5"];
  const { out, exitCode } = await runProgram(["suggest", streams, ...options]);
  expect(exitCode).toBe(0);
  // 198 calls used 3 to 200: the 179th used 181. The 25 that state 100 and use 104 to 200 exceed it.
  expect(out).toContain(`
  # 200 calls of 1 caller; none would have been refused
  # default: 90 % of 198 calls used no more, times 1.5; max: the most that any used, 200, times 1.5
  # 25 would have used more than they held, by 1300 in all and 100 at most
  # ttl: the longest of 199 calls took 2 s
  - key: tenant
    hold: { id: id, estimate: most, default: 272, max: 300, ttl: 3s }
    rate_limit: { requests_per_unit: 13365, unit: minute, algorithm: token_bucket, burst: 627 }
`);
  const rules = join(folder, "held.yaml");
  writeFileSync(rules, out);
  expect((await runProgram(["check", "--strict", rules])).exitCode).toBe(0);
  expect((await simulated(rules, streams)).limits[0]).toMatchObject({
    refused: 0,
    holds: { opened: 200, settled: 199, settled_above: 25, exceeded_hits: 1300, exceeded_hits_max: 100, expired: 1 },
  });
});

test("takes other words for the end of a call, and final numbers of logs", async () => {
  const streams = join(folder, "done.jsonl");
  writeFileSync(streams, streamsOf("done", 90));
  const { out } = await runProgram(["suggest", streams, "--hold", "id=id,estimate=most,settle=done"]);
  expect(out).toContain("  # ttl: the longest of 199 calls took 1 min 30 s\n");
  expect(out).toContain("hold: { id: id, estimate: most, default: 239, max: 240, ttl: 108s, settle: done }");
  const log = join(folder, "access.log");
  const time = (i: number) => new Date(Date.UTC(2026, 0, 1) + i * 1_000).toISOString();
  const used = Array.from({ length: 100 }, (_, i) => ({ time: time(i), tenant: "acme", used: i + 1 }));
  writeFileSync(log, used.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const mapping = ["--domain", "llm", "--time", "time", "--hits", "used", "--descriptor", "tenant={tenant}"];
  const final = await runProgram(["suggest", log, "--hold", "id=id,estimate=most", "--headroom", "1", ...mapping]);
  expect(final.out).toContain("  # ttl: how long calls take is not known: put in more than the longest\n");
  expect(final.out).toContain("hold: { id: id, estimate: most, default: 99, max: 100, ttl: 600s }");
});

test.each([["id=a"], ["estimate=b"], ["id=a,estimate=a"], ["id=a,estimate=b,end=c"], ["id=a,estimate=settle"], ["a"]])(
  "takes no --hold %s",
  async (hold) => {
    const { err, exitCode } = await runProgram(["suggest", one, "--hold", hold]);
    expect([err.includes("Expected id=KEY,estimate=KEY"), exitCode]).toEqual([true, 2]);
  },
);

test("ends with 1 where no rule covers a call", async () => {
  const peeks = join(folder, "peeks.jsonl");
  const entries = [{ key: "user", value: "ann" }];
  const peek = { at: "2026-01-01T00:00:00Z", domain: "edge", descriptors: [{ entries, hits_addend: 0 }] };
  writeFileSync(peeks, `${JSON.stringify(peek)}\n`);
  expect((await runProgram(["suggest", peeks])).exitCode).toBe(1);
});
