// `headgate limits ... --dry-run FILE`: what a change would have done to recorded calls, without a server.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runProgram } from "../../../support/run-program.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const folder = temporaryFolder("headgate-limits-on-calls");
const RULES = join(folder, "rules.yaml");
writeFileSync(
  RULES,
  `domain: edge
limits:
  free: { requests_per_unit: 1, unit: hour }
  gold: { requests_per_unit: 5, unit: hour }
global_limit: { requests_per_unit: 7, unit: hour, algorithm: fixed_window }
descriptors:
  - { key: tenant, rate_limit: { requests_per_unit: 3, unit: hour, algorithm: fixed_window } }
  - { key: user, tier: { entry: plan, default: free } }
`,
);
const CALLS = join(folder, "calls.jsonl");
const asked = ["tenant=a", "tenant=a", "tenant=b", "tenant=a", "tenant=a", "user=u", "user=u", "tenant=b", "tenant=b"];
const lines = asked.map((text, i) => {
  const [key, value] = text.split("=");
  return JSON.stringify({
    at: new Date(Date.UTC(2026, 0, 1) + i * 1_000).toISOString(),
    domain: "edge",
    descriptors: [{ entries: [{ key, value }] }],
  });
});
writeFileSync(CALLS, lines.map((line) => `${line}\n`).join(""));

const dryRun = (...args: string[]) => runProgram(["limits", ...args, "--rules", RULES, "--dry-run", CALLS]);

describe("headgate limits --dry-run FILE", () => {
  // Seven of nine calls pass by the rules; what tenant=a gets beyond its three, the domain's limit takes from others.
  test.each<[readonly string[], string, string, string]>([
    [
      ["set", "edge", "tenant=a", "--requests", "4"],
      "4 hits per hour",
      "4 calls, 0 refused, 1 before",
      "1 newly refused (11.1 %), 1 newly allowed, 1 refused before and now",
    ],
    [
      ["set", "edge", "user=u", "--use", "gold"],
      "5 hits per hour",
      "2 calls, 0 refused, 1 before",
      "1 newly refused (11.1 %), 1 newly allowed, 1 refused before and now",
    ],
    [
      ["block", "edge", "tenant=a", "--until", "2s"],
      "blocked: every call is refused",
      "2 calls, 2 refused (100.0 %), 0 before",
      "2 newly refused (22.2 %), 1 newly allowed, 1 refused before and now",
    ],
    [
      ["exempt", "edge", "tenant=a", "--global"],
      "exempt from the rule's limits and from the global limit",
      "4 calls, 0 refused, 1 before",
      "0 newly refused, 1 newly allowed, 1 refused before and now",
    ],
  ])("says what %j would have done to the caller and to all", async (args, words, own, all) => {
    const { out, err, exitCode } = await dryRun(...args);
    expect([err, exitCode ?? 0]).toEqual(["", 0]);
    expect(out).toContain(`edge ${args[2]}: `);
    expect(out).toContain(words);
    expect(out).toContain(`\n    ${own}\n`);
    expect(out).toContain(`changes: ${all}\n`);
  });

  test("tries all lines of a file together", async () => {
    const file = join(folder, "customers.csv");
    writeFileSync(file, "domain,descriptor,requests_per_unit,block\nedge,tenant=a,,true\nedge,tenant=b,0,\n");
    const { out } = await dryRun("import", file, "--json");
    expect(JSON.parse(out)).toMatchObject({
      calls: { read: 9, allowed: 1, refused: 8 },
      changes: { newly_allowed: { calls: 0 } },
      runtime_limits: {
        met: [
          { caller: "edge tenant=a", calls: 4, refused: 4, refused_by_old: 1 },
          { caller: "edge tenant=b", calls: 3, refused: 3, refused_by_old: 0 },
        ],
      },
    });
  });

  test("says that no call meets the change, or why the rules refuse it", async () => {
    expect((await dryRun("block", "edge", "tenant=c")).out).toContain("limits at run time: calls met 0 of 1\n");
    const { err, exitCode } = await dryRun("set", "edge", "tenat=a", "--requests", "5");
    expect(err).toContain("edge tenat=a: expected a descriptor that matches a rule with limits");
    expect(exitCode).toBe(2);
    const day = await dryRun("block", "edge", "tenant=a", "--until", "2027-02-31T00:00:00Z");
    expect([day.err, day.exitCode]).toEqual([expect.stringContaining("2027-02-31"), 2]);
    const both = await dryRun("set", "edge", "user=u", "--use", "gold", "--requests", "5");
    expect([both.err, both.exitCode]).toEqual([expect.stringContaining("one of requests_per_unit"), 2]);
    const bare = await runProgram(["limits", "block", "--dry-run", "edge", "tenant=a"]);
    expect(bare.err).toContain("Expected a file of recorded calls, got 'edge'; without one, --dry-run comes last");
    expect(bare.exitCode).toBe(2);
  });
});
