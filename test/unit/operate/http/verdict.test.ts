// The first line of the operator's page and of `headgate doctor`.

import { describe, expect, test } from "vitest";
import { type SetKey, verdictOf } from "../../../../src/operate/http/verdict.ts";
import { AT, historyOf, many } from "../../../support/call-history.ts";

const atMs = Date.parse(AT);
type Facts = Parameters<typeof verdictOf>[0];

const verdictText = ({ words }: ReturnType<typeof verdictOf>) =>
  words.map((word) => (typeof word === "string" ? word : word.says)).join("");

const condition = (id: string, severity: "critical" | "warning", says: string, effect?: string) => ({
  ...{ id, severity, says, advice: "", see: "", details: [], since: "2026-11-27T17:13:00.000Z" },
  ...(effect === undefined ? {} : { effect }),
});
const STORE = condition("store", "critical", "Redis at 10.0.0.7:6379 refuses connections: nothing listens there.");
const LATE = condition("loopLate", "warning", "3 answers were late");

const ANN: SetKey = {
  ...{ domain: "edge", rule: "user", limit: "", key: "{edge|user=ann}|sw/3600", refused: 80, refused_overcount: 0 },
  descriptor: [{ key: "user", value: "ann" }],
};
const BOB: SetKey = {
  ...ANN,
  ...{ key: "{edge|user=bob}|blocked", descriptor: [{ key: "user", value: "bob" }], blocked: true as const },
  runtime_limit: { kind: "block", until: "2026-11-27T18:12:58.000Z", who: "alice", note: "INC-1234" },
};
const topOf = (...keys: SetKey[]) => ({ refused: keys.reduce((sum, { refused }) => sum + refused, 0), keys });

const refusingMost = () => ({ id: "edge/user", part: 0.9 });
const FACTS: Facts = { atMs, conditions: [], history: undefined, refusingMost, top: topOf(ANN) };

const CASES: readonly [name: string, facts: Partial<Facts>, says: string | RegExp, severity: string][] = [
  ["nothing", { history: historyOf(many(24, [10, 0])) }, "All is well.", "well"],
  ["few refusals", { history: historyOf(many(24, [98, 2])) }, "All is well; 2 % of calls refused.", "well"],
  [
    "a flood",
    { history: historyOf(many(12, [36, 64])) },
    "64 % of calls refused since 2026-11-27T17:14:00.000Z, mostly user=ann by rule user of edge.",
    "warning",
  ],
  [
    "a flood that is over",
    { history: historyOf([...many(12, [36, 64] as const), ...many(12, [36, 0] as const)]) },
    "All is well. From 2026-11-27T17:13:00.000Z to 2026-11-27T17:14:00.000Z 64 % of calls were refused, mostly user=ann by rule user of edge.",
    "well",
  ],
  [
    "a flood of which no key has most",
    { history: historyOf(many(12, [1, 9])), top: { refused: 900, keys: [ANN] } },
    /, mostly by rule edge\/user\.$/,
    "warning",
  ],
  [
    "one blocked caller",
    { history: historyOf(many(24, [57, 43, 43])), top: topOf(BOB) },
    "All is well. 43 % refused: user=bob, blocked by alice until 2026-11-27T18:12:58.000Z (INC-1234).",
    "well",
  ],
  [
    "a blocked caller and a flood of another",
    { history: historyOf(many(12, [10, 90, 40])), top: topOf({ ...BOB, refused: 400 }, ANN) },
    /^50 % of calls refused since \S+, mostly user=ann by rule user of edge\. 40 % refused: user=bob, blocked by alice/,
    "warning",
  ],
  [
    "several blocked callers",
    { history: historyOf(many(24, [57, 43, 43])), top: topOf(BOB, { ...BOB, key: "{edge|user=eve}|blocked" }) },
    "All is well. 43 % refused: user=bob and 1 more, blocked at run time.",
    "well",
  ],
  [
    "calls that shadow mode lets pass",
    { history: historyOf(many(24, [10, 0, 0, 3])) },
    "All is well. 30 % pass only because of shadow mode.",
    "well",
  ],
  [
    "a store that is away",
    { conditions: [{ ...STORE, effect: "97 % of calls pass without limits; login is refused" }, LATE] },
    "Redis has been down for 2 min: 97 % of calls pass without limits; login is refused. 1 more to check.",
    "critical",
  ],
  [
    "a store that hangs",
    { conditions: [{ ...STORE, says: "Redis at 10.0.0.7:6379 accepts connections but does not answer." }] },
    "Redis has not answered for 2 min.",
    "critical",
  ],
  [
    "it and a flood",
    { conditions: [STORE], history: historyOf(many(12, [1, 9])) },
    /^Redis has been down for 2 min\. 90 % of calls refused since /,
    "critical",
  ],
  ["a warning", { conditions: [LATE] }, "3 answers were late.", "warning"],
  [
    "a warning and a flood",
    { conditions: [LATE], history: historyOf(many(12, [1, 9])) },
    /^90 % of calls refused .*\. 3 answers were late\.$/,
    "warning",
  ],
  [
    "calls without a decision",
    { conditions: [condition("undecided", "warning", "Calls passed")] },
    "Calls passed without a decision.",
    "warning",
  ],
];

describe("of", () => {
  test.each(CASES)("%s the first line says so", (_, facts, says, severity) => {
    const verdict = verdictOf({ ...FACTS, ...facts });
    expect([verdictText(verdict), verdict.severity]).toEqual([
      typeof says === "string" ? says : expect.stringMatching(says),
      severity,
    ]);
  });
});

test("the key and the rule are pieces of their own, for links", () => {
  const { words } = verdictOf({ ...FACTS, history: historyOf(many(12, [36, 64])) });
  expect(words.filter((word) => typeof word !== "string")).toEqual([
    { says: "user=ann", domain: "edge", key: ANN.key, descriptor: ANN.descriptor },
    { says: "rule user of edge", rule: "edge/user" },
  ]);
});

test("failing calls rule out that all is well", () => {
  const history = historyOf(many(12, [9, 0]));
  const failing = { ...history, calls: { ...history.calls, errors: many(12, 3) } };
  expect(verdictText(verdictOf({ ...FACTS, history: failing }))).toBe("25 % of calls fail.");
});
