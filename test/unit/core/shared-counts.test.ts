// Names and places of shared counters: bounds, texts, and a thread that ends before any of its writes.

import { afterEach, expect, test, vi } from "vitest";
import { layoutOf, reserveCounts } from "../../../src/engine/base/count-layout.ts";
import { JournaledMemory } from "../../../src/engine/base/journaled-memory.ts";
import { runThrough } from "../../../src/engine/base/long-work.ts";
import { Mark, NameKind, SharedCounts } from "../../../src/engine/base/shared-counts.ts";

const PLACES = 16;
const LIMIT = { kind: NameKind.limit };

afterEach(() => {
  vi.restoreAllMocks();
});

/** The words of the table and all rows. Texts of places that are free stay as they are. */
function stateOf(buffer: SharedArrayBuffer): Buffer {
  const { textsAt, rowsAt, bytes } = layoutOf(PLACES, 2);
  return Buffer.concat([Buffer.from(buffer, 0, textsAt), Buffer.from(buffer, rowsAt, bytes - rowsAt)]);
}

function copyOf(buffer: SharedArrayBuffer): SharedArrayBuffer {
  const copy = new SharedArrayBuffer(layoutOf(PLACES, 2).bytes);
  Buffer.from(copy).set(Buffer.from(buffer, 0, copy.byteLength));
  return copy;
}

/** Two threads. One name is used by both, the others by the first alone; one of these is summed, and one belongs to it. */
function twoThreads() {
  const buffer = reserveCounts(2, PLACES);
  const [one, other] = [new SharedCounts(buffer, 0), new SharedCounts(buffer, 1)];
  const heir = one.use("heir", LIMIT);
  const kept = one.use("kept", LIMIT) as number;
  other.use("kept", LIMIT);
  const summed = one.use("summed", { ...LIMIT, heir }) as number;
  const child = one.use("child", { ...LIMIT, heir, parent: summed, text: "child" }) as number;
  one.locked(() => {
    for (const at of [summed, child]) one.mark(at, Mark.summed);
  });
  for (const [i, at] of [kept, summed, child].entries()) one.own[at] = i + 1;
  return { buffer, one, heir, kept };
}

type Threads = ReturnType<typeof twoThreads>;

// Promise(operators): A thread that ends while rules load leaves no counter and no lock half done.
test.each<[string, (threads: Threads) => void]>([
  ["a name", ({ one }) => one.use("new", LIMIT)],
  ["a name with a text", ({ one }) => one.use("new", { ...LIMIT, text: "new" })],
  ["names given up", ({ one, heir }) => runThrough(one.giveUpAllBut(NameKind.limit, (at) => at === heir))],
  ["all names given up", ({ one }) => runThrough(one.giveUpAllBut(NameKind.limit, () => false))],
  ["a mark", ({ one, kept }) => one.locked(() => one.mark(kept, Mark.own))],
])("a thread that ends before any of its writes leaves what was before, and the lock is free: %s", (_, change) => {
  const threads = twoThreads();
  const { buffer } = threads;
  let before = stateOf(buffer);
  // The lock's word is not compared: it is free before and after.
  const wrong: number[] = [];
  let writes = 0;
  const endHere = () => {
    const copy = copyOf(buffer);
    new SharedCounts(copy, -1).release(0);
    const living = new Int32Array(copy);
    living[8] = 3;
    if (!stateOf(copy).equals(before)) wrong.push(writes);
    writes++;
  };
  for (const method of ["setWord", "setNumber"] as const) {
    const write = JournaledMemory.prototype[method];
    vi.spyOn(JournaledMemory.prototype, method).mockImplementation(function (this: JournaledMemory, at, value) {
      endHere();
      write.call(this, at, value);
    });
  }
  const commit = JournaledMemory.prototype.commit;
  vi.spyOn(JournaledMemory.prototype, "commit").mockImplementation(function (this: JournaledMemory) {
    endHere();
    commit.call(this);
    before = stateOf(buffer);
    new Int32Array(before.buffer, before.byteOffset, 1)[0] = 0;
  });
  change(threads);
  expect({ writes: writes > 1, wrong }).toEqual({ writes: true, wrong: [] });
});

test("a thread that waits for the lock of one that has ended goes on once that is released", async () => {
  const buffer = reserveCounts(2, PLACES);
  const [one, other] = [new SharedCounts(buffer, 0), new SharedCounts(buffer, 1)];
  const words = new Int32Array(buffer);
  one.use("a", LIMIT);
  words[0] = 1;
  new SharedCounts(buffer, -1).release(1);
  expect(words[0]).toBe(1);
  new SharedCounts(buffer, -1).release(0);
  expect([words[0], other.use("a", LIMIT)]).toEqual([0, one.use("a", LIMIT)]);
  expect(one.living()).toEqual([]);
});

test("names beyond the places, and texts that are too long, get none; a place that is given up is given away again", () => {
  const counts = new SharedCounts(reserveCounts(1, PLACES), 0);
  const places = Array.from({ length: PLACES }, (_, i) => counts.use(`name ${i}`, LIMIT));
  expect(new Set(places).size).toBe(PLACES);
  expect(places.at(-1)).toBeUndefined();
  // The last one is kept for names that stay.
  expect([counts.group("group", 1), counts.group("another", 1)]).toEqual([expect.any(Number), undefined]);
  expect(counts.use("name 3", LIMIT)).toBe(places[3]);
  counts.own[places[5] as number] = 7;
  const number = counts.numberOf(places[5] as number);
  runThrough(counts.giveUpAllBut(NameKind.limit, (at) => at !== places[5]));
  expect([counts.use("other", LIMIT), counts.own[places[5] as number]]).toEqual([places[5], 0]);
  // The number of a name is not that of the next one at its place.
  expect([counts.placeOf(number), counts.placeOf(counts.numberOf(places[5] as number))]).toEqual([
    undefined,
    places[5],
  ]);
  expect(
    new SharedCounts(reserveCounts(1, PLACES), 0).use("long", { ...LIMIT, text: "x".repeat(2_000) }),
  ).toBeUndefined();
});

test("other threads learn of names with texts, each once", () => {
  const buffer = reserveCounts(2, PLACES);
  const [one, other] = [new SharedCounts(buffer, 0), new SharedCounts(buffer, 1)];
  expect(other.texts(NameKind.domain, 0)).toBeUndefined();
  one.use("ü", { kind: NameKind.domain, text: "ü" });
  const first = other.texts(NameKind.domain, 0);
  expect(first).toEqual({ made: 1, texts: ["ü"] });
  one.use("b", { kind: NameKind.limit, text: "b" });
  expect(other.texts(NameKind.domain, 1)).toEqual({ made: 2, texts: [] });
  expect(other.texts(NameKind.limit, 1)?.texts).toEqual(["b"]);
});
