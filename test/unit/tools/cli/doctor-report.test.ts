// What `headgate doctor` makes of the answers of several processes.

import { expect, test } from "vitest";
import { doctorReport, doctorText, type Heard } from "../../../../src/tools/cli/doctor-report.ts";
import { RecordedTerminal } from "../../../support/recorded-terminal.ts";

const AT_MS = Date.UTC(2026, 0, 1);

interface Answer extends Partial<Omit<Heard["state"], "at">> {
  readonly settings?: Heard["settings"];
  /** By so much its clock is ahead, and so long the question took, in milliseconds. */
  readonly aheadMs?: number;
  readonly tookMs?: number;
}

function heard(server: string, { settings = {}, aheadMs = 0, tookMs = 0, ...state }: Answer = {}): Heard {
  return {
    server,
    settings,
    askedMs: AT_MS,
    heardMs: AT_MS + tookMs,
    state: {
      at: new Date(AT_MS + aheadMs).toISOString(),
      instance: `${server}:1`,
      version: "1.0.0",
      store: "redis",
      status: "well",
      conditions: [],
      calls: { allowed: 5, refused: 2, degraded: 1, errors: 0 },
      rules: { hash: "a".repeat(64) },
      ...state,
    },
  };
}

const condition = (id: string, more: object = {}) => ({
  id,
  severity: "warning" as const,
  says: `${id} is odd.`,
  advice: "Look.",
  see: "headgateaway",
  since: "2026-01-01T00:00:10.000Z",
  details: [],
  ...more,
});

test("all is well: 0", () => {
  const report = doctorReport([heard("a:1"), heard("b:1")]);
  expect(report).toMatchObject({ status: "well", exit_code: 0, conditions: [], differences: [], information: [] });
  expect(doctorText(report, new RecordedTerminal())).toBe(`well: 2 servers, 0 problems, 0 differences
  a:1  well; 1.0.0, redis, rules aaaaaaaaaaaa; 5 calls allowed, 2 refused, 0 failed; 1 without the store
  b:1  well; 1.0.0, redis, rules aaaaaaaaaaaa; 5 calls allowed, 2 refused, 0 failed; 1 without the store
`);
});

test("reports a problem of several servers once, since the first, critical ones before warnings: 1", () => {
  const odd = condition("odd", { details: ["one"] });
  const report = doctorReport([
    heard("a:1", { conditions: [odd] }),
    heard("b:1", {
      conditions: [
        { ...odd, says: "It is odder.", since: "2026-01-01T00:00:05.000Z", details: ["one", "two"] },
        condition("away", { severity: "critical" }),
      ],
    }),
  ]);
  expect(report).toMatchObject({ status: "critical", exit_code: 1 });
  expect(report.conditions).toMatchObject([
    { id: "away", servers: ["b:1"] },
    {
      id: "odd",
      servers: ["a:1", "b:1"],
      since: "2026-01-01T00:00:05.000Z",
      details: ["one", "two", "b:1: It is odder."],
    },
  ]);
  expect(doctorText(report, new RecordedTerminal())).toContain(`
warning  since 2026-01-01T00:00:05.000Z, on a:1, b:1
  odd is odd.
  one
  two
  b:1: It is odder.
  Look. docs/operations.md#headgateaway
`);
});

test("a server that can't be asked is named, and the others are reported: 2", () => {
  const report = doctorReport([
    heard("a:1", { conditions: [condition("odd")] }),
    { server: "b:1", error: "can't ask b:1" },
  ]);
  expect(report).toMatchObject({ status: "critical", exit_code: 2, conditions: [{ id: "odd" }] });
  expect(doctorText(report, new RecordedTerminal())).toContain("  b:1  can't be asked: can't ask b:1\n");
});

test.each<[string, Answer, Answer, object]>([
  ["versions", {}, { version: "1.1.0" }, { what: "version", values: { "1.0.0": ["a:1"], "1.1.0": ["b:1"] } }],
  ["rules", {}, { rules: { hash: null } }, { what: "rules", values: { aaaaaaaaaaaa: ["a:1"], none: ["b:1"] } }],
  ["stores", {}, { store: "memory" }, { what: "store", values: { redis: ["a:1"], memory: ["b:1"] } }],
  [
    "settings, also those that one does not have",
    { settings: { SHADOW_MODE: "true", NEW: "" } },
    { settings: { SHADOW_MODE: "true" } },
    { what: "setting NEW", values: { "": ["a:1"], "unknown here": ["b:1"] } },
  ],
  ["clocks", { aheadMs: -600 }, { aheadMs: 500 }, { values: { "-0.6 s": ["a:1"], "+0.5 s": ["b:1"] } }],
])("different %s are found: 1", (_, one, other, difference) => {
  const report = doctorReport([heard("a:1", one), heard("b:1", other)]);
  expect(report).toMatchObject({ status: "warning", exit_code: 1, differences: [difference] });
});

test.each<[string, Answer, Answer]>([
  ["clocks that differ less than can be told", { aheadMs: 0 }, { aheadMs: 1_500, tookMs: 600 }],
  ["ports and files of one process", { settings: { PORT: "1" } }, { settings: { PORT: "2" } }],
  ["settings of a server that doesn't tell them", { settings: { SHADOW_MODE: "true" } }, {}],
])("%s are no difference", (_, one, other) => {
  expect(doctorReport([heard("a:1", one), heard("b:1", other)]).exit_code).toBe(0);
});

test("a limit that is dead in one process and not in another is no problem", () => {
  const lines = (...ids: readonly string[]) => ids.map((id) => `edge/${id} (a.yaml:9:5): none of ${ids.length}; why`);
  const dead = (...ids: readonly string[]) => ({
    conditions: [condition("dead limits edge", { details: lines(...ids) })],
  });
  expect(doctorReport([heard("a:1", dead("a")), heard("b:1")])).toMatchObject({ exit_code: 0, conditions: [] });
  expect(doctorReport([heard("a:1", dead("a", "b", "c")), heard("b:1", dead("b"))])).toMatchObject({
    exit_code: 1,
    conditions: [{ details: ["edge/b (a.yaml:9:5): none of 3; why"], servers: ["a:1", "b:1"] }],
  });
});

test("reports settings that can't be read", () => {
  const report = doctorReport([{ ...heard("a:1"), settingsError: "answered 500" }, heard("b:1")]);
  expect(report.information).toEqual([
    { says: "Its settings could not be compared:", details: ["answered 500"], servers: ["a:1"] },
  ]);
});

test("reports information once, and not as a problem", () => {
  const information = [{ says: "Limits that refuse all:", details: ["edge/a"] }];
  const past = { cause: "STORE_TIMEOUT", last_hour: 0, last_day: 7, first_at: "A", last_at: "B" };
  const report = doctorReport([
    heard("a:1", { information, undecided: { causes: [past] } }),
    heard("b:1", { information: [{ says: "Limits that refuse all:", details: ["edge/a", "edge/b"] }] }),
  ]);
  expect(report).toMatchObject({ exit_code: 0, status: "well" });
  expect(report.information).toEqual([
    { says: "Limits that refuse all:", details: ["edge/a", "edge/b"], servers: ["a:1", "b:1"] },
    {
      says: "Calls passed without a decision in the last day:",
      details: ["STORE_TIMEOUT: 0 in the hour, 7 in the day, from A to B"],
      servers: ["a:1"],
    },
  ]);
  expect(doctorText(report, new RecordedTerminal())).toContain(`
for information  a:1, b:1
  Limits that refuse all:
  edge/a
  edge/b
`);
  const present = { ...past, last_hour: 1 };
  expect(doctorReport([heard("a:1", { undecided: { causes: [present] } })]).information).toEqual([]);
});

test("text of servers can't move the cursor", () => {
  const report = doctorReport([heard("a:1", { version: "\x1b[2J", conditions: [condition("\x1b[2J")] })]);
  expect(doctorText(report, new RecordedTerminal())).not.toContain("\x1b");
});
