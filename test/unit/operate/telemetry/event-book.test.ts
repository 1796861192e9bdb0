// What a process remembers of what happened: rules, changes at run time, problems.

import { expect, test } from "vitest";
import { EventBook } from "../../../../src/operate/telemetry/event-book.ts";

const SECOND = 1_000_000;
const RULES = { version: 1, hash: "a".repeat(64) };
const LIMITS = { changes: 0, last: undefined };
const CHANGE = { atUs: 12 * SECOND, says: "user=bob was blocked", who: "alice", note: "INC-1" };
const STORE = { id: "store", says: "Redis is down." };

test("keeps reloads, changes at run time with who and why, and when critical problems began and ended", () => {
  const book = new EventBook(10 * SECOND);
  const facts = { rules: RULES, limits: LIMITS, criticals: [] };
  book.look(facts, 11 * SECOND);
  book.look({ ...facts, limits: { changes: 3, last: CHANGE }, criticals: [STORE] }, 13 * SECOND);
  book.look({ ...facts, limits: { changes: 3, last: CHANGE } }, 14 * SECOND);
  book.look(
    { ...facts, limits: { changes: 3, last: CHANGE }, rules: { version: 2, hash: "b".repeat(64) } },
    15 * SECOND,
  );
  const events = book.list(true).map(({ at, ...event }) => ({ ...event, at: at.slice(17, 19) }));
  expect(events).toEqual([
    { at: "12", kind: "limits", says: "user=bob was blocked, after 2 more", who: "alice", note: "INC-1" },
    { at: "13", kind: "trouble", says: "Redis is down." },
    { at: "14", kind: "over", says: "over: Redis is down." },
    { at: "15", kind: "rules", says: "rules bbbbbbb came into force" },
  ]);
  expect(JSON.stringify(book.list(false))).not.toMatch(/alice|INC-1/);
});

test("changes from before the process are no events, and at most 64 are kept", () => {
  const book = new EventBook(20 * SECOND);
  const limits = { changes: 3, last: CHANGE };
  for (let i = 0; i < 100; i++)
    book.look({ rules: { version: i, hash: `${i}`.padEnd(64) }, limits, criticals: [] }, (20 + i) * SECOND);
  expect(book.list(true)).toHaveLength(64);
  expect(book.list(true).every(({ kind }) => kind === "rules")).toBe(true);
});
