// `headgate test` on files of cases: what it finds, what it prints in each format, how it ends.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseFile } from "../../../../src/rule-sources/files/parse-file.ts";
import { readCases } from "../../../../src/tools/simulate/cases/read-cases.ts";
import { runProgram } from "../../../support/run-program.ts";
import { runs } from "../../../support/runs.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const folder = temporaryFolder("headgate-test");
let files = 0;

function written(text: string): string {
  const file = join(folder, `cases-${files++}.yaml`);
  writeFileSync(file, text);
  return file;
}

mkdirSync(join(folder, "rules"));
writeFileSync(
  join(folder, "rules", "edge.yaml"),
  `domain: edge
descriptors:
  - key: user
    rate_limit: { name: per-user, tokens_per_second: 1, burst: 2 }
  - key: admin
    rate_limit: { unlimited: true }
  - key: pair
    on_store_failure: error
    rate_limits:
      - { requests_per_unit: 3, unit: second }
      - { name: slow, requests_per_unit: 5, unit: hour, algorithm: sliding_log }
`,
);

const HEAD = "rules: rules\ndomain: edge\n";
const GOOD = `${HEAD}settings: { RESPONSE_HEADERS: x-ratelimit, RETRY_AFTER_JITTER: "0" }
cases:
  - name: two at once, then one a second
    start: 2026-03-01T12:00:00Z
    steps:
      - { call: user=ann, times: 2, expect: { code: OK, rule: edge/user#per-user, remaining: 0, reset: 2s } }
      - call: user=ann
        expect:
          code: OVER_LIMIT
          wait: 1s
          headers: { x-ratelimit-limit: "2", Retry-After: "1", X-Nothing: null }
      - { after: 999ms, call: user=ann, expect: OVER_LIMIT }
      - { at: "2026-03-01T12:00:01Z", call: user=ann, expect: OK }
  - name: several descriptors, hits and what a caller brings along
    steps:
      - call: [user=ann, { entries: { other: "a,b=c" } }]
        expect: { code: OK, matches: [user, nothing], statuses: [OK, OK] }
      - { call: pair=a, hits: 4, expect: { code: OVER_LIMIT, statuses: OVER_LIMIT } }
      - { call: pair=a, hits: 3, expect: { code: OK, remaining: 0, rule: pair } }
      - { call: pair=a, peek: true, expect: OVER_LIMIT }
      - { call: pair=a, refund: true, hits: 1, expect: OK }
      - { call: pair=a, expect: OK }
      - { call: x=1, override: { requests_per_unit: 1, unit: hour }, expect: OK }
      - { call: x=1, override: { requests_per_unit: 1, unit: hour }, expect: { code: OVER_LIMIT, rule: "#override" } }
      - { call: admin=root, times: 100, every: 1ms, expect: { code: OK, rule: none, matches: admin } }
  - name: with the store away
    steps:
      - { store: away, call: pair=a, expect: UNAVAILABLE }
      - { call: user=ann, expect: { code: OK, rule: none } }
      - { store: back, call: pair=a, expect: { code: OK, remaining: 2 } }
`;

const LIMITS = `${HEAD}settings: { RESPONSE_HEADERS: x-ratelimit, RETRY_AFTER_JITTER: "0" }
cases:
  - name: raised from the beginning, and unset
    limits: [{ descriptor: user=ann, requests_per_unit: 4, unit: second, until_seconds: 30 }]
    steps:
      - { call: user=ann, times: 4, expect: { code: OK, rule: per-user, remaining: 0, reset: 1s } }
      - { call: user=bob, times: 2, expect: { code: OK, remaining: 0 } }
      - { call: user=bob, expect: OVER_LIMIT }
      - { after: 29999ms, call: user=ann, peek: true, expect: { remaining: 4 } }
      - { after: 1ms, call: user=ann, peek: true, expect: { remaining: 2 } }
      - { limits: [{ descriptor: { user: ann }, block: true, until: "2026-01-01T00:01:00Z" }] }
      - { call: user=ann, expect: { code: OVER_LIMIT, wait: 30s, headers: { Retry-After: "30" } } }
      - { call: "user=ann", store: away, expect: OVER_LIMIT }
      - { store: back, limits: [{ descriptor: user=ann, unset: true }], call: user=ann, expect: OK }
  - name: single limits of a rule, and none at all
    steps:
      - limits:
          - { descriptor: pair=a, amounts: [{ limit: slow, requests_per_unit: 1 }] }
          - { descriptor: user=ann, exempt: true }
        call: pair=a
        expect: { code: OK, rule: slow, remaining: 0 }
      - { call: user=ann, times: 9, expect: { code: OK, rule: none, matches: user } }
`;

const BAD = `${HEAD}cases:
  - name: passes
    steps: [{ call: user=ann, expect: OK }]
  - name: "fails & <says> #so"
    steps:
      - { call: user=ann, times: 3, expect: OK }
      - { call: user=ann, expect: OVER_LIMIT }
`;

const HELD = `rules:
  domain: edge
  descriptors:
    - key: tenant
      rate_limit: { name: tokens, requests_per_unit: 100, unit: day, algorithm: fixed_window }
      hold: { id: id, estimate: most, default: 30, ttl: 60s }
    - key: payer
      rate_limit: { name: money, requests_per_unit: 100, unit: day, algorithm: fixed_window }
      hold: { id: id, estimate: most, default: 3000, per: 1000, ttl: 60s }
    - { key: plain, rate_limit: { requests_per_unit: 5, unit: hour } }
`;
const HOLDS = `${HELD}cases:
  - name: settled at what was used, at nothing, and without a number
    steps:
      - { call: "tenant=a,id=r1,most=40", expect: { code: OK, reserved: 40, found: nothing } }
      - { call: "tenant=a,id=r1,settle=x", hits: 7, expect: { code: OK, reserved: 0, found: settled, remaining: 93 } }
      - { call: "tenant=a,id=r1,settle=x", hits: 7, expect: { found: already_settled, remaining: 93 } }
      - { call: "tenant=a,id=r2,most=90", expect: { reserved: 90, remaining: 3 } }
      - { call: "tenant=a,id=r3,most=4", expect: { code: OVER_LIMIT, reserved: 0 } }
      - { call: "tenant=a,id=r2,settle=x", hits: 0, expect: { found: settled, remaining: 93 } }
      - { call: "tenant=a,id=r4,most=40", expect: { remaining: 53 } }
      - { call: "tenant=a,id=r4,most=40,settle=x", expect: { found: settled, remaining: 53 } }
      - { call: "tenant=a,id=r5", expect: { reserved: 30, remaining: 23 } }
      - { call: "tenant=a,id=r5,settle=x", expect: { found: settled, remaining: 23 } }
  - name: after the ttl
    steps:
      - { call: "tenant=a,id=r1,most=40", expect: { remaining: 60 } }
      - { after: 59999ms, call: "tenant=a", peek: true, expect: { remaining: 60, found: nothing, reserved: 0 } }
      - { after: 1ms, call: "tenant=a,id=r1,settle=x", hits: 7, expect: { found: unknown, remaining: 93 } }
  - name: of each descriptor
    steps:
      - call: ["tenant=a,id=r1,most=40", "payer=a,id=r1,most=1001", plain=a]
        expect: { reserved: [40, 2000, 0], found: nothing }
      - { call: "payer=a,id=r1,settle=x", hits: 1, expect: { remaining: 99 } }
      - call: ["tenant=a,id=r1,settle=x", "payer=a,id=r1,settle=x", "plain=a,settle=x"]
        expect: { found: [settled, already_settled, nothing] }
  - name: while the store is away
    steps:
      - { store: away, call: "tenant=a,id=r1,settle=x", hits: 7, expect: { found: unanswered } }
`;

describe("headgate test", () => {
  test("tells what calls hold, and what settlements find", async () => {
    const { out, exitCode } = await runProgram(["test", written(HOLDS)]);
    expect([out.match(/expected.*/)?.[0], exitCode]).toEqual([undefined, 0]);
  });

  test("passes what is answered as the cases say", async () => {
    const { out, exitCode } = await runProgram(["test", written(GOOD)]);
    expect(out).toContain("3 of 3 cases passed");
    expect(out).toContain("rules: 4 of 4 rules met, 2 of 3 limits refused a call");
    expect(exitCode).toBe(0);
  });

  test("has limits at run time in force, set and unset", async () => {
    const { out, exitCode } = await runProgram(["test", written(LIMITS)]);
    expect([out.match(/: expected.*|is refused: .*/)?.[0], exitCode]).toEqual([undefined, 0]);
  });

  test.each([
    [
      "descriptor: usr=ann, block: true",
      1,
      "the limit at run time is rejected: expected a descriptor that matches a rule",
    ],
    ["descriptor: user=ann, unset: true", 1, "expected a limit at run time of this descriptor, found none"],
    ["descriptor: user=ann", 2, "expected one of requests_per_unit (or amounts), use, block: true and exempt: true"],
    ["descriptor: user=ann, blok: true", 2, "got 'blok'; did you mean block?"],
    ["descriptor: user, block: true", 2, "expected key=value,key2=value2, got 'user'"],
    ["block: true", 2, "expected a descriptor such as tenant=acme"],
  ])("names a limit at run time that can't be: %s", async (limit, code, says) => {
    const file = written(`${HEAD}cases:\n  - name: one\n    limits: [{ ${limit} }]\n    steps: [{ call: user=ann }]\n`);
    const { out, exitCode } = await runProgram(["test", file]);
    expect([exitCode, out]).toEqual([code, expect.stringMatching(/yaml:5:(?:14|28): /)]);
    expect(out).toContain(says);
  });

  test("says of an answer what was expected, what came, and why", async () => {
    const file = written(BAD);
    const { out, exitCode } = await runProgram(["test", file]);
    expect(exitCode).toBe(1);
    expect(out).toContain(
      `${file}:8:45: expected the code OK of call 3 of 3, got OVER_LIMIT; edge/user#per-user governs it: 0 left, room again in 1 s, full again in 2 s`,
    );
    expect(out).toContain("1 of 2 cases passed, 4 calls");
    expect(out).toContain("never met:\n    edge/pair#sliding_window/1\n    edge/pair#slow\n    edge/admin (unlimited)");
  });

  test.each([
    ["reserved: 39", "expected a reservation of 39, got 40", "tenant=a,id=r1,most=40"],
    ["found: settled", "expected settlements to find settled, got nothing", "tenant=a,id=r1,most=40"],
    ["found: settled", "expected settlements to find settled, got unknown", "tenant=a,id=r1,settle=x"],
    ["found: unknown", "expected settlements to find unknown, got nothing", "plain=a,settle=x"],
    ["remaining: 5", "expected remaining 5, got 1"],
    ["rule: other", "expected the rule other, got edge/user#per-user"],
    ["wait: 5ms", "expected a wait of 5ms, got 0s"],
    ["reset: 5ms", "expected a reset in 5ms, got 1s"],
    ['headers: { Retry-After: "1" }', "expected the header Retry-After 1, got null"],
    ["matches: nothing", "expected matches of nothing, got user"],
    ["statuses: OVER_LIMIT", "expected statuses OVER_LIMIT, got OK"],
    ["code: INTERNAL", "expected the code INTERNAL, got OK"],
  ])("fails at its place where an answer is not %s", async (expected, message, call = "user=ann") => {
    const head = call === "user=ann" ? HEAD : HELD;
    const text = `${head}cases: [{ name: one, steps: [{ call: "${call}", expect: { ${expected} } }] }]\n`;
    const { out, exitCode } = await runProgram(["test", written(text)]);
    expect(out).toMatch(new RegExp(`cases-\\d+\\.yaml:${head.split("\n").length}:\\d+: expected`));
    expect(out).toContain(message);
    expect(exitCode).toBe(1);
  });

  const stepIs = (text: string) => `cases: [{ name: a, steps: [{ ${text} }] }]`;
  const withSetting = (text: string) => `settings: { ${text} }\n${stepIs("call: a=b")}`;
  const WORDS_FOUND = "settled, unknown, already_settled, unanswered, nothing";
  test.each([
    ["an unknown key", stepIs("cal: user=ann"), /3:30: error: unknown key 'cal'.*Did you mean 'call'\?/],
    ["no cases", "cases: []", /error: cases: expected at least one case/],
    ["no steps", "cases: [{ name: a }]", /error: steps: expected at least one step/],
    ["no name", "cases: [{ steps: [{ call: a=b }] }]", /error: a case needs a 'name'/],
    ["an expectation without a call", stepIs("expect: OK"), /'expect' needs a 'call'/],
    ["a time that is none", stepIs("at: noon"), /error: at: expected a time such as/],
    ["a duration that is none", stepIs("after: 1 day"), /error: after: expected a duration/],
    ["an unknown code", stepIs("call: a=b, expect: DENIED"), /expected one of OK, OVER_LIMIT/],
    [
      "a settlement that can find no such thing",
      stepIs("call: a=b, expect: { found: [settled, lost] }"),
      new RegExp(`3:68: error: found: expected one of ${WORDS_FOUND}, got 'lost'`),
    ],
    [
      "a reservation that is no number",
      stepIs("call: a=b, expect: { reserved: much }"),
      /3:61: error: reserved: expected a whole number from 0/,
    ],
    ["rules that can't be used", `rules: nowhere\n${stepIs("call: a=b")}`, /nowhere:1:1: error/],
    ["a setting that can't be", withSetting("RETRY_AFTER_JITTER: much"), /settings:.*RETRY_AFTER_JITTER/s],
    ["a setting that there is not", withSetting("SHADOW_MOD: true"), /1:1: error: settings: SHADOW_MOD: .*SHADOW_MODE/],
    ["a setting like no other", withSetting("NOSUCHTHING: 5"), /settings: NOSUCHTHING: there is no such setting/],
  ])("refuses a file with %s, at its place", async (_, text, message) => {
    const head = text.startsWith("rules") ? "domain: edge\n" : HEAD;
    const { out, exitCode } = await runProgram(["test", written(head + text)]);
    expect(out).toMatch(message);
    expect(exitCode).toBe(2);
  });

  test("warns of a call whose value looks like two entries", async () => {
    const { out, exitCode } = await runProgram([
      "test",
      written(`${HEAD}cases: [{ name: one, steps: [{ call: user=ann plan=x, expect: OK }] }]\n`),
    ]);
    expect(out).toMatch(/:3:\d+: warning: call: the value 'ann plan=x' of 'user' looks like two entries/);
    expect(exitCode).toBe(0);
  });

  test("skips what is no file of cases in a folder, says so, and still reports what can't be read", async () => {
    const mixed = join(folder, "mixed");
    mkdirSync(join(mixed, "rules"), { recursive: true });
    const rules = "domain: edge\ndescriptors: [{ key: user, rate_limit: { requests_per_unit: 1, unit: day } }]\n";
    writeFileSync(join(mixed, "rules", "edge.yaml"), rules);
    writeFileSync(join(mixed, "notes.yml"), "- one\n");
    const edge = `${HEAD}cases: [{ name: a, steps: [{ call: user=ann, expect: OK }] }]\n`;
    writeFileSync(join(mixed, "cases.yaml"), edge);
    const { out, err, exitCode } = await runProgram(["test", mixed]);
    expect([out.includes("1 of 1 case passed"), exitCode]).toEqual([true, 0]);
    expect(err).toBe(`skipped 2 files without 'cases': ${mixed}/notes.yml, ${mixed}/rules/edge.yaml\n`);
    expect((await runProgram(["test", join(mixed, "rules", "edge.yaml")])).exitCode).toBe(2);
    writeFileSync(join(mixed, "broken.yaml"), "cases: [\n");
    expect((await runProgram(["test", mixed])).exitCode).toBe(2);
  });

  test("takes rules from the file itself, and says where they are wrong", async () => {
    const own = (rate: string) =>
      `rules:\n  domain: own\n  descriptors: [{ key: a, rate_limit: { requests_per_unit: ${rate}, unit: day } }]\n` +
      "cases: [{ name: a, steps: [{ call: a=b, expect: OK }, { call: a=b, expect: OVER_LIMIT }] }]\n";
    expect((await runProgram(["test", written(own("1"))])).exitCode).toBe(0);
    const bad = await runProgram(["test", written(own("many"))]);
    expect(bad.out).toMatch(/:3:\d+: error: requests_per_unit/);
    expect(bad.exitCode).toBe(2);
  });

  test.each([
    [["--require-coverage"], GOOD, 0],
    [["--require-coverage"], `${HEAD}cases: [{ name: a, steps: [{ call: user=ann, expect: OK }] }]`, 1],
  ])("with %j counts what no case meets", async (flags, text, code) => {
    expect((await runProgram(["test", ...flags, written(text)])).exitCode).toBe(code);
  });

  test("names plans without a limit that no case met", async () => {
    const rules =
      "rules:\n  domain: own\n  limits: { free: { requests_per_unit: 1, unit: day }, gold: { unlimited: true }, staff: { unlimited: true } }\n" +
      "  descriptors: [{ key: a, tier: { entry: plan, default: free } }]\n";
    const cases = 'cases: [{ name: a, steps: [{ call: "a=b,plan=gold", expect: OK }] }]\n';
    const { out } = await runProgram(["test", written(rules + cases)]);
    expect(out).toContain("never met:\n    own/a#free\n    own/a#staff (unlimited)\n");
    expect(out).toContain("1 of 3 rules met");
  });

  test("prints JUnit's XML", async () => {
    const bad = written(BAD);
    const { out } = await runProgram(["test", "--format", "junit", bad, written("cases: 1")]);
    expect(out).toContain(`<testsuite name="${bad}" tests="2" failures="1" errors="0">`);
    expect(out).toContain('name="fails &amp; &lt;says&gt; #so">');
    expect(out).toContain('tests="1" failures="0" errors="1"');
    expect(out.match(/<(\w+)[\s>]/g)?.length).toBeGreaterThan(6);
  });

  test("prints annotations of pull requests", async () => {
    const bad = written(BAD);
    const { out } = await runProgram(["test", "--format", "github", bad]);
    expect(out).toContain(`::error file=${bad},line=8,col=45,title=fails & <says> #so::expected the code OK`);
  });

  test("runs again when cases or rules change, until stopped", async () => {
    const file = written(BAD);
    const { exitCode } = await runProgram(["test", "--watch", file], {
      async untilStopped(terminal) {
        await expect.poll(() => terminal.outText).toContain("1 of 2 cases passed");
        expect(terminal.exitCode).toBe(1);
        writeFileSync(file, BAD.replace("times: 3", "times: 2"));
        await expect.poll(() => terminal.outText).toContain("2 of 2 cases passed");
      },
    });
    expect(exitCode).toBe(0);
  });

  test("any YAML is read or refused at a place, and never ends the program", () => {
    const known = ["rules", "cases", "name", "steps", "call", "expect", "entries", "hits", "matches", "found"];
    const key = fc.constantFrom(...known, "reserved", "domain", "x");
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 6 },
        fc.constantFrom(null, "", "a=b", "OK", 1, -1, 1.5, true, "2026-01-01T00:00:00Z", "1s"),
        fc.array(tie("tree"), { maxLength: 3 }),
        fc.dictionary(key, tie("tree"), { maxKeys: 5, noNullPrototype: true }),
      ),
    }));
    fc.assert(
      fc.property(tree, (value) => {
        const bytes = Buffer.from(JSON.stringify(value));
        const { file, problems } = readCases(parseFile({ name: "cases.yaml", bytes }));
        expect(file === undefined).toBe(problems.some(({ severity }) => severity === "error"));
        for (const problem of problems) expect(problem).toMatchObject({ file: "cases.yaml", line: 1 });
      }),
      { numRuns: runs(1_000) },
    );
  });
});
