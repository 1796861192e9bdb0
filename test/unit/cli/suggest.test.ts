// `headgate suggest` on real files: rules that `check` accepts and `simulate` confirms.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { SimulationReport } from "../../../src/simulate/report.ts";
import { runProgram } from "../../support/run-program.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

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
    rate_limit: { tokens_per_second: 1.5, burst: 90 }
`);
  expect(out).not.toContain("value 1");
  const rules = join(folder, "suggested.yaml");
  writeFileSync(rules, out);
  expect((await runProgram(["check", "--strict", rules])).exitCode).toBe(0);
  const simulated = JSON.parse(
    (await runProgram(["simulate", "--rules", rules, "--json", one])).out,
  ) as SimulationReport;
  expect(simulated.limits[0]).toMatchObject({ callers: 100, callers_refused: 10, refused: 110 });
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
  expect(again.err).toContain("EEXIST");
});

test("ends with 1 where no rule could stand for a call, with 2 where files can't be read", async () => {
  const peeks = join(folder, "peeks.jsonl");
  const entries = [{ key: "user", value: "ann" }];
  const peek = { at: "2026-01-01T00:00:00Z", domain: "edge", descriptors: [{ entries, hits_addend: 0 }] };
  writeFileSync(peeks, `${JSON.stringify(peek)}\n`);
  expect((await runProgram(["suggest", peeks])).exitCode).toBe(1);
  expect((await runProgram(["suggest", join(folder, "none")])).exitCode).toBe(2);
});
