// What a peer can make the book remember.

import { expect, test } from "vitest";
import type { Payer } from "../../../src/quota/bank.ts";
import { QuotaBook } from "../../../src/quota/quota-book.ts";
import { makeLimit } from "../../support/builders.ts";

const limit = makeLimit({ amount: 200, burst: 200, windowSeconds: 1 });
const terms = { limit, handOut: { idleSeconds: 60, floorPercent: 1 }, processes: 1 };
const payer: Payer = { pay: (bank, tokens) => bank.paid(200 - tokens, 0), charge: () => undefined };

test.each<[what: string, idBytes: number, streams: number, isClosed: boolean, most: number]>([
  ["parts of open streams", 30, 40, false, 100_000],
  ["parts of streams that have closed, which stay paid", 30, 40, true, 100_000],
  ["bytes of long ids", 8_000, 2, false, 2_097],
])("%s are bounded", (_, idBytes, streams, isClosed, most) => {
  const book = new QuotaBook({ find: (_domain, id) => ({ key: id.toString(), terms, mode: "bucket" }) }, payer);
  const counts = new Map<string, number>();
  for (let i = 0; i < streams; i++) {
    const stream = book.open(i);
    for (let each = 0; each < 4_096; each++) {
      const id = Buffer.from(`${i}/${each}`.padEnd(idBytes));
      const outcome = book.report(
        stream,
        { id, idKey: id.toString(), passed: 0, refused: 1, isContinued: false },
        1_000_000,
      );
      counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
    }
    if (isClosed) book.close(stream, 1_000_000);
  }
  expect(counts.get("handed-out")).toBe(most);
  expect(book.partCount).toBe(most);
  for (const stream of book.streams) book.close(stream, 1_000_000);
  book.tick(60_000_000);
  expect([book.partCount, book.buckets.size]).toEqual([0, 0]);
});

test("a block reaches all parts of equal ids within two seconds, and no tick looks up all of them", () => {
  let mode: "bucket" | "deny" = "bucket";
  const book = new QuotaBook({ find: (_domain, id) => ({ key: id.toString(), terms, mode }) }, payer);
  const streams = Array.from({ length: 25 }, () => book.open(0));
  for (const stream of streams)
    for (let each = 0; each < 400; each++) {
      const id = Buffer.from(`${each}`);
      book.report(stream, { id, idKey: `${each}`, passed: 0, refused: 1, isContinued: false }, 0);
    }
  mode = "deny";
  const blocked = () => streams.flatMap(({ parts }) => [...parts.values()]).filter(({ part }) => part.mode === "deny");
  book.tick(1_000_000);
  expect(blocked().length).toBeLessThanOrEqual(4_000);
  for (let us = 1_025_000; us < 2_000_000; us += 25_000) book.tick(us);
  expect(blocked()).toHaveLength(10_000);
});

test.each([
  { until: "it expires, if the stream does not read", isBehind: true },
  { until: "the stream must have read that", isBehind: false },
])("what a rule no longer hands out stays paid until $until", ({ isBehind }) => {
  let isHandedOut = true;
  const found = { key: "one", terms, mode: "bucket" } as const;
  const book = new QuotaBook({ find: () => (isHandedOut ? found : undefined) }, payer);
  const stream = book.open(0);
  let nowUs = 0;
  const tickUntil = (untilUs: number) => {
    for (; nowUs <= untilUs; nowUs += 25_000) book.tick(nowUs);
  };
  book.report(stream, { id: Buffer.from("1"), idKey: "1", passed: 0, refused: 1, isContinued: false }, 0);
  tickUntil(1_000_000);
  book.sent(stream, false, 1_000_000);
  isHandedOut = false;
  while (stream.abandoned.length === 0) tickUntil(nowUs);
  const abandonedUs = nowUs - 25_000;
  book.sent(stream, isBehind, abandonedUs);
  const bucket = book.buckets.get("one");
  // It was told at 1 s what it has, for 15 s.
  tickUntil(isBehind ? 15_900_000 : abandonedUs + 25_000);
  expect(bucket?.heldTokens).toBeGreaterThan(0);
  tickUntil(nowUs + 150_000);
  expect(bucket?.heldTokens).toBe(0);
});
