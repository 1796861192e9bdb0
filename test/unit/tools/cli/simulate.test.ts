// `headgate simulate` on real files: its report for people and as JSON, and its exit codes.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readTyped } from "../../../../src/engine/domain/entry-text.ts";
import type { SimulationReport } from "../../../../src/tools/simulate/report.ts";
import { runProgram } from "../../../support/run-program.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const folder = temporaryFolder("headgate-simulate");

function rules(name: string, text: string): string {
  mkdirSync(join(folder, name));
  writeFileSync(join(folder, name, "rules.yaml"), text);
  return join(folder, name);
}

const OLD = rules(
  "old",
  `domain: edge
descriptors:
  - { key: user, hash_values: true, rate_limit: { name: per-user, tokens_per_second: 1, burst: 3 } }
  - { key: unused, rate_limit: { requests_per_unit: 1, unit: day } }
`,
);
const NEW = rules(
  "new",
  `domain: edge
descriptors:
  - { key: user, rate_limit: { name: per-user, tokens_per_second: 1, burst: 2 } }
`,
);

// Five calls of ann within a second, one of bob, then one of each after a silence.
const at = (ms: number) => new Date(Date.UTC(2026, 0, 1) + ms).toISOString();
const call = (ms: number, user: string, extra: readonly string[] = []) =>
  JSON.stringify({
    at: at(ms),
    domain: "edge",
    descriptors: [user, ...extra].map((value, i) => ({ entries: [{ key: i === 0 ? "user" : value, value }] })),
  });
const CALLS = join(folder, "calls.jsonl");
writeFileSync(
  CALLS,
  `${[0, 100, 200, 300, 400].map((ms) => call(ms, "ann")).join("\n")}\n${call(500, "bob", ["color"])}\n` +
    `${call(120_500, "ann")}\n${call(120_500, "bob")}\n`,
);

const BUDGET = rules(
  "budget",
  `domain: llm
descriptors:
  - key: tenant
    hold: { id: request_id, estimate: max_tokens, default: 40, ttl: 60s }
    rate_limit: { name: tokens, requests_per_unit: 100, unit: day, algorithm: fixed_window }
`,
);
const stream = (ms: number, id: string, end?: number) => ({
  at: at(ms),
  domain: "llm",
  descriptors: [
    {
      entries: [
        { key: "tenant", value: "acme" },
        { key: "request_id", value: id },
        ...(end === undefined ? [] : [{ key: "settle", value: "used" }]),
      ],
      ...(end === undefined ? {} : { hits_addend: end }),
    },
  ],
});
const STREAMS = written("streams.jsonl", [
  stream(0, "a"),
  stream(1, "b"),
  stream(2, "c"),
  stream(3, "a", 10),
  stream(4, "b", 47),
  stream(5, "c", 7),
  stream(6, "a", 10),
  stream(7, "d"),
  stream(70_000, "e"),
  stream(70_001, "d", 3),
]);

/** The report as JSON. */
async function reportOf(...args: readonly string[]): Promise<SimulationReport> {
  return JSON.parse((await runProgram(["simulate", "--json", ...args])).out) as SimulationReport;
}

/** A file with a line of JSON per call. */
function written(name: string, calls: readonly object[]): string {
  const file = join(folder, name);
  writeFileSync(file, calls.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return file;
}

describe("headgate simulate", () => {
  test("tells what became of holds, and leaves out what calls settle that it refuses", async () => {
    const { out } = await runProgram(["simulate", "--rules", BUDGET, STREAMS]);
    expect(out).toContain(`llm/tenant#tokens: 100 hits per day, fixed window, held for 1 minute at most
  5 asked, 1 refused (20.0 %), 5 settlements and refunds
  refused 1 of 1 caller
  holds: 4 opened, 2 settled, 1 expired, 1 live at the end
    1 had held more than was used, by 30 in all
    1 had held less, by 7 in all and 7 at most
    1 settlement found no hold and charged 3
    1 settlement came again
    1 settlement left out, of calls that are refused here
  first   2026-01-01T00:00:00.002Z  tenant=acme
`);
    const holdsIn = async (...args: readonly string[]) => (await reportOf("--rules", ...args)).limits[0]?.holds;
    expect(await holdsIn(BUDGET, STREAMS)).toMatchObject({ opened: 4, exceeded_hits: 7 });
    expect(await holdsIn(OLD, CALLS)).toBeNull();
  });

  test("tells per limit whom it refuses, for how long, and which burst would do", async () => {
    const { out, exitCode } = await runProgram(["simulate", "--rules", OLD, CALLS]);
    expect(exitCode).toBe(0);
    expect(out).toContain("8 calls: 6 allowed, 2 refused (25.0 %)");
    expect(out).toContain("1 silence of a minute or more, the longest 2 min from 2026-01-01T00:00:00.500Z");
    expect(out).toContain("8 asked, 2 refused");
    expect(out).toContain("refused 1 of 2 callers");
    // The bucket is empty at 200 ms; the call at 400 ms would have passed at 1 s.
    expect(out).toMatch(/longest 700 ms from 2026-01-01T00:00:00.300Z {2}user=%#\S+ \(2 calls\)/);
    expect(out).toContain("a burst of 5 would have refused nobody");
    expect(out).toMatch(/limits that no call asked:\n {2}edge\/unused/);
    expect(out).toMatch(/1 descriptor met no rule\n +1 {2}edge: color/);
    expect(out).not.toContain("ann");
  });

  // Promise(simulations): A simulation shows a month of a contract: windows, plans and priorities.
  test("shows a month of a contract: a calendar's windows, plans, and a part for paying customers", async () => {
    const month = "window: { calendar: month, time_zone: Europe/Berlin, starts_on: 15 }";
    const contract = rules(
      "contract",
      `domain: edge
global_limit:
  requests_per_unit: 50
  window: { calendar: day, time_zone: Europe/Berlin }
  priority: { entry: class, high: 20% }
limits:
  free: { requests_per_unit: 100, ${month} }
  gold: { requests_per_unit: 1000, ${month} }
descriptors: [{ key: tenant, tier: { entry: plan, default: free } }]
`,
    );
    // From 15 January 00:00 in Berlin on, ten calls at noon of each of the 31 days; on the 20th day the plan is changed.
    const begin = Date.UTC(2026, 0, 14, 23);
    const day = 86_400_000;
    const asked = (ms: number, entries: object) => ({
      at: new Date(begin + ms).toISOString(),
      domain: "edge",
      descriptors: [{ entries: Object.entries(entries).map(([key, value]) => ({ key, value })) }],
    });
    const noons = Array.from({ length: 31 }, (_, i) => i * day + day / 2);
    const calls = noons.flatMap((ms, i) => [
      ...Array.from({ length: 10 }, () => asked(ms, { tenant: "acme", plan: i < 19 ? "free" : "gold" })),
      // Others flood the domain; a paying customer comes after them.
      ...Array.from({ length: 60 }, (_, n) => asked(ms + 1, { tenant: `t${n}`, plan: "gold" })),
      asked(ms + 2, { tenant: "payer", plan: "gold", class: "high" }),
    ]);
    // A second before the next month in Berlin, and at its beginning.
    const end = 31 * day;
    const late = [end - 1_000, end].map((ms) => asked(ms, { tenant: "acme", plan: "free" }));
    const { limits } = await reportOf("--rules", contract, written("contract.jsonl", [...calls, ...late]));
    const found = Object.fromEntries(limits.map(({ limit, asked, refused }) => [limit, { asked, refused }]));
    // Ten days use up the free plan, nine are refused; of a thousand a hundred and twenty more are used; a new month begins.
    expect(found["edge/tenant#free"]).toEqual({ asked: 192, refused: 91 });
    expect(found["edge/tenant#gold"]).toEqual({ asked: 120 + 31 * 61, refused: 0 });
    // Forty a day are for all: thirty of others after acme's ten, forty while acme is refused.
    expect(found["edge#global/low"]).toEqual({ asked: 310 + 31 * 60 + 2, refused: 22 * 30 + 9 * 20 + 1 });
    expect(found["edge#global"]).toEqual({ asked: 31, refused: 0 });
  });

  test("compares with other rules and explains refusals", async () => {
    const report = await reportOf("--rules", NEW, "--against", OLD, "--explain", "1", CALLS);
    expect(report.changes).toMatchObject({
      refused_by_both: 2,
      newly_refused: { calls: 1, limits: [{ limit: "edge/user#per-user", calls: 1, callers: 1 }] },
      newly_allowed: { calls: 0 },
    });
    // Of the three calls that the new rules refuse, the old ones let this one pass.
    expect(report.refusals).toMatchObject([
      {
        rules: "new",
        call: 3,
        at: at(200),
        descriptors: ["user=ann"],
        limits: [{ cost: 1, had_room: false, before: 0, after: 0, wait_seconds: 0.8, full_in_seconds: 1.8 }],
      },
    ]);
    const text = await runProgram(["simulate", "--rules", NEW, "--against", OLD, "--explain", "1", CALLS]);
    expect(text.out).toContain("changes: 1 newly refused (12.5 %), 0 newly allowed, 2 refused before and now");
    expect(text.out).toContain("0 left before, 0 after, room again in 800 ms");
    const back = await runProgram(["simulate", "--rules", OLD, "--against", NEW, "--explain", "2", CALLS]);
    expect(back.out.match(/^call .*$/gm)).toEqual([
      `call 3, ${at(200)}, refused by edge/user#per-user of the old rules`,
    ]);
  });

  test("decides with limits at run time in force, and tells what each did", async () => {
    const limits = join(folder, "limits.jsonl");
    const of = (user: string, more: object) =>
      `${JSON.stringify({ domain: "edge", entries: [{ key: "user", value: user }], ...more })}\n`;
    writeFileSync(
      limits,
      of("ann", { amounts: [{ limit: "per-user", requests_per_unit: 3, unit: "second" }], until: at(120_500) }) +
        of("bob", { block: true, until_seconds: 60 }) +
        of("cy", { exempt: true }),
    );
    const args = ["simulate", "--rules", NEW, "--limits", limits, CALLS];
    const { out } = await runProgram(args);
    // Of ann's five calls four pass; her limit ends with her last call, bob's block a minute after the first call.
    expect(out).toContain("8 calls: 6 allowed, 2 refused (25.0 %)");
    expect(out).toContain("edge/user#per-user: 1 token per second, burst 2, token bucket\n  7 asked, 1 refused");
    expect(out).toContain(`limits at run time: calls met 2 of 3
  edge user=ann: per-user: 3 tokens per second, burst 3, token bucket
    5 calls, 1 refused (20.0 %), 3 before
  edge user=bob: blocked: every call is refused
    1 call, 1 refused (100.0 %), 0 before
`);
    expect(out).toContain("changes: 1 newly refused (12.5 %), 2 newly allowed, 1 refused before and now");
    const { out: hidden } = await runProgram([...args, "--values", "hash"]);
    expect(hidden).not.toContain("ann");
    // The same limits are in force under the old rules, which hide the values.
    const { out: compared } = await runProgram([...args, "--against", OLD, "--json"]);
    expect(JSON.parse(compared)).toMatchObject({
      changes: { refused_by_both: 2, newly_refused: { calls: 0 }, newly_allowed: { calls: 0 } },
      runtime_limits: { given: 3, met: [{ calls: 5, refused: 1, shadowed: 0 }, { calls: 1 }] },
    });
  });

  test("simulates nothing with limits at run time that the rules refuse, and names all of them", async () => {
    const limits = join(folder, "limits.csv");
    writeFileSync(
      limits,
      "domain,descriptor,requests_per_unit,limit,block,until\nedge,user=ann,5,,,\nedge,usr=ann,5,,,\nedge,user=ann,5,per-usr,,\nedge,user=ann,,,true,soon\nedge,user=ann,,,true,2027-02-31T00:00:00Z\n",
    );
    const { out, err, exitCode } = await runProgram(["simulate", "--rules", NEW, "--limits", limits, CALLS]);
    expect([out, exitCode]).toEqual(["", 2]);
    expect(err).toContain("limits at run time can't be used\n");
    expect(err).toContain(`${limits}:3: expected a descriptor that matches a rule with limits`);
    expect(err).toContain(`${limits}:4: expected a limit of the rule, got 'per-usr'`);
    expect(err).toContain(`${limits}:5: expected a time such as 2026-12-24T18:00:00Z as limit.until`);
    expect(err).toContain(`${limits}:6: expected a day that exists as limit.until, got 2027-02-31`);
    expect(err).not.toContain(`${limits}:2:`);
    const missing = await runProgram(["simulate", "--rules", NEW, "--limits", "nowhere.csv", CALLS]);
    expect([missing.err.includes("can't read nowhere.csv"), missing.exitCode]).toEqual([true, 2]);
  });

  test("names descriptors and callers as they are typed", async () => {
    const path = rules(
      "typed",
      "domain: edge\ndescriptors:\n  - { key: user, descriptors: [{ key: path, rate_limit: { requests_per_unit: 0, unit: day } }] }\n",
    );
    const entries = [
      { key: "user", value: "a,b\\c" },
      { key: "path", value: "/x=y" },
    ];
    const file = written("typed.jsonl", [{ at: at(0), domain: "edge", descriptors: [{ entries }] }]);
    const [refusal] = (await reportOf("--rules", path, "--explain", "1", file)).refusals;
    for (const text of [refusal?.descriptors[0], refusal?.limits[0]?.caller]) {
      expect(readTyped(text ?? "")).toEqual(entries);
    }
  });

  test("counts calls that only the old rules reject, and what the new ones make of them", async () => {
    const logs = (key: string) =>
      `  - { key: ${key}, rate_limits: [${Array.from({ length: 11 }, (_, n) => `{ name: l${n}, algorithm: sliding_log, requests_per_unit: ${n}, unit: hour }`).join(", ")}] }\n`;
    const many = rules("many", `domain: edge\ndescriptors:\n${logs("user")}${logs("color")}`);
    const report = await reportOf("--rules", NEW, "--against", many, CALLS);
    expect(report.calls).toMatchObject({ read: 8, allowed: 5, refused: 3, rejected: {} });
    expect(report.changes?.rejected_by_old).toEqual({ REQUEST_LIMITS_TOO_MANY: 1 });
    const text = await runProgram(["simulate", "--rules", NEW, "--against", many, CALLS]);
    expect(text.out).toContain("1 rejected before with REQUEST_LIMITS_TOO_MANY, and not compared");
    expect(await reportOf("--rules", many, "--against", NEW, CALLS)).toMatchObject({
      calls: { rejected: { REQUEST_LIMITS_TOO_MANY: 1 } },
      changes: { rejected_by_old: {} },
    });
  });

  test("counts no settlement as unmatched that leads to a rule without holds", async () => {
    const path = rules(
      "settled",
      "domain: llm\ndescriptors:\n  - { key: tenant, rate_limit: { requests_per_unit: 9, unit: day } }\n" +
        "  - { key: held, hold: { id: request_id, ttl: 60s }, rate_limit: { requests_per_unit: 9, unit: day, algorithm: fixed_window } }\n",
    );
    const entries = [
      { key: "tenant", value: "a" },
      { key: "settle", value: "1" },
    ];
    const report = await reportOf(
      "--rules",
      path,
      written("settled.jsonl", [{ at: at(0), domain: "llm", descriptors: [{ entries }] }]),
    );
    expect(report).toMatchObject({ calls: { read: 1, allowed: 1 }, unmatched: { descriptors: 0 } });
  });

  test("says that a file in another order has to be sorted", async () => {
    const file = join(folder, "newest-first.jsonl");
    writeFileSync(file, [120_000, 60_000, 0].map((ms) => `${call(ms, "ann")}\n`).join(""));
    const { out } = await runProgram(["simulate", "--rules", NEW, "--late", "1s", file]);
    expect(out).toContain("1 came late, by 1 min at most");
    expect(out).toContain("sort it by time, or give a longer --late");
    const sorted = await runProgram(["simulate", "--rules", NEW, "--late", "3m", file]);
    expect(sorted.out).not.toContain("came late");
  });

  test.each(["jsonl", "csv"])("says which fields of the options no line of a %s log has", async (kind) => {
    const lines = [
      { t: 1, user: "ann", size: "-", "via.host": "-" },
      { t: 2, user: "bob", size: "2", "via.host": "-" },
    ];
    const file = join(folder, `fields.${kind}`);
    const rows = [Object.keys(lines[0] ?? {}), ...lines.map(Object.values)].map((row) => `${row.join(",")}\n`);
    writeFileSync(file, (kind === "csv" ? rows : lines.map((line) => `${JSON.stringify(line)}\n`)).join(""));
    const run = (hits: string, ...descriptors: string[]) =>
      runProgram(
        ["simulate", "--rules", NEW, "--domain", "edge", "--time", "t", "--hits", hits, file].concat(
          descriptors.flatMap((descriptor) => ["--descriptor", descriptor]),
        ),
      );
    // A field that is there and empty, as Envoy writes `-`, is no mistake.
    expect((await run("size", "user={user}", "via={via.host}")).err).toBe("");
    const { err, exitCode } = await run("sise", "user={user}", "user={user},ip={ip}");
    expect(err).toBe(
      "no line has 'sise' and 'ip'. A descriptor without its field is left out, a call without its hits counts as 1\n",
    );
    expect(exitCode).toBe(0);
    const suggest = "suggest --domain edge --time t --descriptor user={user} --hits sise";
    const suggested = await runProgram([...suggest.split(" "), file]);
    expect(suggested.err).toContain("no line has 'sise'");
  });

  test("hides all values when asked to", async () => {
    const { out } = await runProgram(["simulate", "--rules", NEW, "--values", "hash", "--explain", "3", CALLS]);
    expect(out).toContain("user=%#");
    expect(out).not.toContain("ann");
  });

  test.each([
    ["more is refused than tolerated", ["--rules", NEW, "--tolerate", "30%"], 1],
    ["no more is refused than tolerated", ["--rules", NEW, "--tolerate", "38%"], 0],
    ["more is newly refused than tolerated", ["--rules", NEW, "--against", OLD, "--tolerate", "12%"], 1],
    ["no more is newly refused than tolerated", ["--rules", NEW, "--against", OLD, "--tolerate", "12.5%"], 0],
    ["a log is half described", ["--rules", NEW, "--domain", "edge"], 2],
    ["a template is broken", ["--rules", NEW, "--domain", "{", "--time", "t", "--descriptor", "a={a}"], 2],
  ])("ends by what it finds: %s", async (_, args, code) => {
    expect((await runProgram(["simulate", ...args, CALLS])).exitCode).toBe(code);
  });

  test("decides by the settings of the service", async () => {
    const { out } = await runProgram(["simulate", "--rules", NEW, CALLS], { env: { SHADOW_MODE: "true" } });
    expect(out).toContain("8 calls: 8 allowed, 0 refused");
    expect(out).toContain("3 of the allowed ones would be refused without shadow mode");
  });
});
