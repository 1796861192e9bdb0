// The queue of spans, whatever the collector does: bounded, one batch at a time, and every span in one count.

import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace-base";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SpanQueue } from "../../../../../src/operate/telemetry/traces/span-queue.ts";
import { runs } from "../../../../support/runs.ts";

type SpanQueueOptions = ConstructorParameters<typeof SpanQueue>[0];

const SUCCESS = { code: 0 };
const FAILED = { code: 1, error: new Error("503") };

/** A span that carries its number, and no more than the queue looks at. */
function span(number: number): ReadableSpan {
  return { name: String(number) } as unknown as ReadableSpan;
}

type Done = Parameters<SpanExporter["export"]>[1];

/** A queue with an exporter that answers when the test says. */
class Rig {
  readonly batches: string[][] = [];
  readonly open: Done[] = [];
  readonly troubles: unknown[] = [];
  cuts = 0;
  readonly queue: SpanQueue;

  constructor(options: Partial<SpanQueueOptions> = {}) {
    this.queue = new SpanQueue({
      exporter: {
        export: (spans, done) => {
          this.batches.push(spans.map(({ name }) => name));
          this.open.push(done);
        },
        shutdown: () => Promise.resolve(),
      },
      spansMax: 5,
      batchSpansMax: 3,
      delayMs: 100,
      exportMs: 1_000,
      cutOff: () => this.cuts++,
      onTrouble: (error) => this.troubles.push(error),
      ...options,
    });
  }

  end(from: number, to: number): void {
    for (let i = from; i <= to; i++) this.queue.onEnd(span(i));
  }

  counts() {
    const { sent, failed, dropped } = this.queue;
    return { sent, failed, dropped };
  }
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("a full batch goes at once, fewer spans wait for others", async () => {
  const rig = new Rig();
  rig.end(1, 2);
  expect(rig.batches).toEqual([]);
  await vi.advanceTimersByTimeAsync(99);
  expect(rig.batches).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(rig.batches).toEqual([["1", "2"]]);
  rig.open.pop()?.(SUCCESS);
  await vi.advanceTimersByTimeAsync(0);
  rig.end(3, 5);
  // Not in the turn of the call whose span fills it.
  expect(rig.batches).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(0);
  expect(rig.batches).toEqual([
    ["1", "2"],
    ["3", "4", "5"],
  ]);
});

test("while a batch is under way others wait, and what has no room is dropped", async () => {
  const rig = new Rig();
  rig.end(1, 3);
  await vi.advanceTimersByTimeAsync(0);
  rig.end(4, 10);
  expect(rig.batches).toEqual([["1", "2", "3"]]);
  expect(rig.counts()).toEqual({ sent: 0, failed: 0, dropped: 2 });
  rig.open.pop()?.(FAILED);
  await vi.advanceTimersByTimeAsync(0);
  expect(rig.batches.at(-1)).toEqual(["4", "5", "6"]);
  expect(rig.counts()).toEqual({ sent: 0, failed: 3, dropped: 2 });
  expect(rig.troubles).toEqual([FAILED.error]);
});

test("a batch without an answer is cut off and lost, a late answer changes nothing, and the next one goes", async () => {
  const rig = new Rig();
  rig.end(1, 3);
  await vi.advanceTimersByTimeAsync(0);
  rig.end(4, 6);
  const [late] = rig.open;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(rig.cuts).toBe(1);
  expect(rig.batches.at(-1)).toEqual(["4", "5", "6"]);
  late?.(SUCCESS);
  expect(rig.counts()).toEqual({ sent: 0, failed: 3, dropped: 0 });
});

test("an exporter that throws loses its batch and nothing else", async () => {
  const thrown = new Error("no such thing");
  const rig = new Rig({
    exporter: {
      export: () => {
        throw thrown;
      },
      shutdown: () => Promise.resolve(),
    },
  });
  rig.end(1, 3);
  await vi.advanceTimersByTimeAsync(0);
  expect(rig.troubles).toEqual([thrown]);
  expect(rig.counts()).toEqual({ sent: 0, failed: 3, dropped: 0 });
});

test("its shutdown counts what waited and what was under way; after it nothing is taken or sent", async () => {
  const rig = new Rig();
  rig.end(1, 3);
  await vi.advanceTimersByTimeAsync(0);
  rig.end(4, 5);
  await rig.queue.shutdown();
  expect(rig.cuts).toBe(1);
  expect(rig.counts()).toEqual({ sent: 0, failed: 3, dropped: 2 });
  rig.open.pop()?.(FAILED);
  rig.end(6, 7);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(rig.batches).toEqual([["1", "2", "3"]]);
  expect(rig.counts()).toEqual({ sent: 0, failed: 3, dropped: 4 });
});

// Promise(traces): Spans wait within a bound, go in order, one batch at a time, and each is counted once.
test("whatever comes in whatever order: within its bounds, in order, and every span in one count", async () => {
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.record({ do: fc.constant("end"), count: fc.integer({ min: 1, max: 9 }) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constantFrom("good", "bad"), count: fc.constant(0) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("wait"), count: fc.integer({ min: 1, max: 1_500 }) }) },
  );
  const bounds = fc.record({ spansMax: fc.integer({ min: 1, max: 12 }), batch: fc.integer({ min: 1, max: 5 }) });
  await fc.assert(
    fc.asyncProperty(bounds, fc.array(step, { maxLength: 40 }), async ({ spansMax, batch }, steps) => {
      const batchSpansMax = Math.min(batch, spansMax);
      const rig = new Rig({ spansMax, batchSpansMax });
      let ended = 0;
      for (const one of steps) {
        if (one.do === "end") {
          rig.end(ended + 1, ended + one.count);
          ended += one.count;
        } else if (one.do === "wait") await vi.advanceTimersByTimeAsync(one.count);
        else {
          // Those that were cut off are answered late.
          for (const done of rig.open.splice(0)) done(one.do === "good" ? SUCCESS : FAILED);
          await vi.advanceTimersByTimeAsync(0);
        }
        const { sent, failed, dropped } = rig.counts();
        const exported = rig.batches.flat().length;
        const underWay = exported - sent - failed;
        const waiting = ended - dropped - exported;
        expect(waiting).toBeGreaterThanOrEqual(0);
        expect(waiting).toBeLessThanOrEqual(spansMax);
        // One batch at a time.
        expect(underWay === 0 || underWay === rig.batches.at(-1)?.length).toBe(true);
        expect(rig.batches.every(({ length }) => length >= 1 && length <= batchSpansMax)).toBe(true);
      }
      const numbers = rig.batches.flat().map(Number);
      expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
      await rig.queue.shutdown();
      const { sent, failed, dropped } = rig.counts();
      expect(sent + failed + dropped).toBe(ended);
    }),
    { numRuns: runs(300) },
  );
});
