// Descriptors that met no rule: counted by domain, told in the log, in bounded number.

import { expect, test } from "vitest";
import { runThrough } from "../../../../src/base/long-work.ts";
import { Descriptor, oneByteOf } from "../../../../src/engine/domain/request.ts";
import { countUnmatched, type DomainStats, OTHER_DOMAINS } from "../../../../src/engine/domain/stats.ts";
import { DomainBook, UNKNOWN_DOMAINS_MAX } from "../../../../src/operate/telemetry/domain-book.ts";
import { SHOWN_BYTES_MAX } from "../../../../src/operate/telemetry/short-text.ts";
import { recordedLog } from "../../../support/recorded-log.ts";

function makeBook() {
  const { lines, log } = recordedLog();
  const book = new DomainBook();
  return { lines, book, tell: () => book.tell(log) };
}

/** Gives the domain rules, and takes those of all others. */
function rulesFor(book: DomainBook, domain: string): DomainStats {
  const stats = book.domainStatsOf(domain);
  runThrough(book.retain([{ domain, stats }]));
  return stats;
}

function descriptorOf(...keys: readonly string[]): Descriptor {
  const descriptor = new Descriptor();
  for (const key of keys) descriptor.addEntry(oneByteOf(key), "secret");
  return descriptor;
}

test("a line names the domain and the keys of one, never a value", () => {
  const { lines, book, tell } = makeBook();
  const stats = rulesFor(book, oneByteOf("küche"));
  countUnmatched(stats, descriptorOf("plan", "api_key", "weight"));
  countUnmatched(stats, descriptorOf("other"));
  tell();
  tell();
  const message = "descriptors met no rule and passed without a limit of their own";
  expect(lines).toEqual([
    { level: "warn", message, domain: "küche", descriptors: 2, keys: ["plan", "api_key", "weight"] },
  ]);
});

test("callers who write any domain fill neither memory nor metrics, and count for no domain that has rules", () => {
  const { book } = makeBook();
  countUnmatched(rulesFor(book, "other"), descriptorOf("key"));
  for (let i = 0; i < 10 * UNKNOWN_DOMAINS_MAX; i++) book.countUnknown(`${i}-${"\xff".repeat(1_000)}`, 1);
  const entries = [...book.entries()];
  expect(entries).toHaveLength(UNKNOWN_DOMAINS_MAX + 2);
  expect(entries[0]).toMatchObject({ domain: "other", descriptors: 1 });
  expect(entries.at(-1)).toMatchObject({ domain: OTHER_DOMAINS, descriptors: 9 * UNKNOWN_DOMAINS_MAX });
  expect(Math.max(...entries.map(({ domain }) => Buffer.byteLength(domain)))).toBeLessThanOrEqual(SHOWN_BYTES_MAX);
});

test("a domain that gets rules goes on counting, one that loses them too, and none has two series", () => {
  const { book } = makeBook();
  book.countUnknown("edge", 2);
  const stats = rulesFor(book, "edge");
  countUnmatched(stats, descriptorOf("a"));
  expect([...book.entries()]).toMatchObject([{ domain: "edge", hasRules: true, descriptors: 3 }]);
  runThrough(book.retain([]));
  book.countUnknown("edge", 1);
  expect([...book.entries()]).toMatchObject([{ domain: "edge", hasRules: false, descriptors: 4 }]);
});

test("reloads that rename domains again and again fill nothing", () => {
  const { book } = makeBook();
  for (let i = 0; i < 5 * UNKNOWN_DOMAINS_MAX; i++) {
    countUnmatched(rulesFor(book, `d${i}`), descriptorOf("a"));
  }
  expect([...book.entries()].length).toBeLessThanOrEqual(UNKNOWN_DOMAINS_MAX + 1);
});

test("a domain has no rules as long as its set is not in force, and counts as before", () => {
  const { book, lines, tell } = makeBook();
  book.countUnknown("early", 1);
  const refused = ["early", "late"].map((domain) => ({ domain, stats: book.domainStatsOf(domain) }));
  expect(book.domainStatsOf("late")).toBe(refused[1]?.stats);
  book.countUnknown("early", 1);
  book.countUnknown("late", 3);
  const entries = () => [...book.entries()].map(({ domain, hasRules, descriptors }) => [domain, hasRules, descriptors]);
  const unknown = [
    ["early", false, 2],
    ["late", false, 3],
  ];
  expect(entries()).toEqual(unknown);
  runThrough(book.retain([]));
  expect(entries()).toEqual(unknown);
  tell();
  expect(lines).toHaveLength(2);
  // Calls that named a domain while its first set was judged are in the counters of that set.
  const offered = book.domainStatsOf("new");
  book.countUnknown("new", 1);
  runThrough(book.retain([{ domain: "new", stats: offered }]));
  countUnmatched(offered, descriptorOf("a"));
  expect(entries()).toEqual([...unknown, ["new", true, 2]]);
});
