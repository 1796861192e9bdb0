// Descriptors that met no rule: counted by domain, told in the log, in bounded number.

import { expect, test } from "vitest";
import { Descriptor, oneByteOf } from "../../../src/core/request.ts";
import { countUnmatched } from "../../../src/core/unmatched-stats.ts";
import { RateLimitedLog } from "../../../src/telemetry/rate-limited-log.ts";
import { SHOWN_BYTES_MAX } from "../../../src/telemetry/short-text.ts";
import { UNKNOWN_DOMAINS_MAX, UnmatchedBook } from "../../../src/telemetry/unmatched-book.ts";
import { ManualClock } from "../../support/manual-clock.ts";

function makeBook() {
  const clock = new ManualClock();
  const lines: object[] = [];
  const write = (level: string) => (fields: object, message: string) => lines.push({ level, message, ...fields });
  const log = new RateLimitedLog({ info: write("info"), warn: write("warn"), error: write("error") }, clock);
  const book = new UnmatchedBook();
  return { clock, lines, book, tell: () => book.tell(log) };
}

function descriptorOf(...keys: readonly string[]): Descriptor {
  const descriptor = new Descriptor();
  for (const key of keys) descriptor.addEntry(oneByteOf(key), "secret");
  return descriptor;
}

test("a line names the domain and the keys of one, never a value", () => {
  const { lines, book, tell } = makeBook();
  const stats = book.unmatchedOf(oneByteOf("küche"));
  countUnmatched(stats, descriptorOf("plan", "api_key", "weight"));
  countUnmatched(stats, descriptorOf("other"));
  tell();
  tell();
  const message = "descriptors met no rule and passed without a limit of their own";
  expect(lines).toEqual([
    { level: "warn", message, domain: "küche", descriptors: 2, keys: ["plan", "api_key", "weight"] },
  ]);
});

test("a domain without rules is told of too", () => {
  const { lines, book, tell } = makeBook();
  book.countUnknown("egde", 2);
  tell();
  expect(lines).toMatchObject([{ level: "warn", domain: "egde", descriptors: 2 }]);
});

test("nothing is shown of a domain where all was matched", () => {
  const { lines, book, tell } = makeBook();
  book.unmatchedOf("edge");
  tell();
  expect([lines, [...book.entries()]]).toEqual([[], []]);
});

test("callers who write any domain fill neither memory nor metrics", () => {
  const { book } = makeBook();
  for (let i = 0; i < 10 * UNKNOWN_DOMAINS_MAX; i++) book.countUnknown(`${i}-${"\xff".repeat(1_000)}`, 1);
  const entries = [...book.entries()];
  expect(entries).toHaveLength(UNKNOWN_DOMAINS_MAX + 1);
  expect(entries.at(-1)).toMatchObject({ domain: "other", descriptors: 9 * UNKNOWN_DOMAINS_MAX });
  expect(Math.max(...entries.map(({ domain }) => Buffer.byteLength(domain)))).toBeLessThanOrEqual(SHOWN_BYTES_MAX);
});

test("a domain that gets rules goes on counting, one that loses them too, and none has two series", () => {
  const { book } = makeBook();
  book.countUnknown("edge", 2);
  const stats = book.unmatchedOf("edge");
  countUnmatched(stats, descriptorOf("a"));
  expect([...book.entries()]).toMatchObject([{ domain: "edge", hasRules: true, descriptors: 3 }]);
  book.retain([]);
  book.countUnknown("edge", 1);
  expect([...book.entries()]).toMatchObject([{ domain: "edge", hasRules: false, descriptors: 4 }]);
});

test("reloads that rename domains again and again fill nothing", () => {
  const { book } = makeBook();
  for (let i = 0; i < 5 * UNKNOWN_DOMAINS_MAX; i++) {
    countUnmatched(book.unmatchedOf(`d${i}`), descriptorOf("a"));
    book.retain([`d${i}`]);
  }
  expect([...book.entries()].length).toBeLessThanOrEqual(UNKNOWN_DOMAINS_MAX + 1);
});
