// Shares of what many connections want at once: which streams are ended when too many wait for their peers, and whose
// calls of health and reflection have the next turn.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runs } from "../../../test/support/runs.ts";
import { type Shedder, shedStreams } from "../src/shared-bounds.ts";
import { StreamTurns } from "../src/stream-turns.ts";

describe("streams that wait for their peers", () => {
  class Peer implements Shedder {
    waiting: number;
    readonly working: number;
    constructor(waiting: number, working: number) {
      this.waiting = waiting;
      this.working = working;
    }
    shed(share: number): void {
      this.waiting = Math.min(this.waiting, share);
    }
  }
  const peer = fc.record({ waiting: fc.nat(60), working: fc.nat(60) });
  const crowd = fc.tuple(fc.array(peer, { minLength: 1, maxLength: 20 }), fc.integer({ min: 40, max: 400 }));

  // Promise(grpc): Room for streams that wait is shared evenly among connections, and a connection with one keeps it.
  test("are at most half of the bound after a look, shared out evenly; connections with one stream, or with less than a share, keep theirs", () => {
    fc.assert(
      fc.property(crowd, ([all, max]) => {
        const connections = new Set(all.map(({ waiting, working }) => new Peer(waiting, working)));
        const before = [...connections].map(({ waiting }) => waiting);
        const open = {
          connections,
          get streams() {
            return [...connections].reduce((sum, { waiting, working }) => sum + waiting + working, 0);
          },
        };
        const next = shedStreams(open, max);
        const after = [...connections].map(({ waiting }) => waiting);
        const most = Math.max(...after);
        expect(after.reduce((sum, waiting) => sum + waiting, 0)).toBeLessThanOrEqual(max / 2);
        for (const [i, waiting] of after.entries()) {
          expect(waiting).toBeGreaterThanOrEqual(Math.min(before[i] as number, 1));
          // Who has lost some has as many as anybody.
          if (waiting < (before[i] as number)) expect(waiting).toBe(most);
        }
        // Each look is paid for by half of the bound in new streams.
        expect(next).toBeGreaterThanOrEqual(max);
        expect(next - open.streams).toBeGreaterThanOrEqual(Math.floor(max / 2));
      }),
      { numRuns: runs(300) },
    );
  });
});

describe("turns", () => {
  class Call {
    work: number;
    done = 0;
    constructor(work: number) {
      this.work = work;
    }
    takeTurn(): boolean {
      this.done++;
      return --this.work > 0;
    }
  }
  const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

  test("do 16 pieces of work each, and connections take them one after another", async () => {
    const connection = fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(fc.array(connection, { minLength: 1, maxLength: 8 }), async (connections) => {
        const turns = new StreamTurns();
        const all = connections.map((works) => works.map((work) => new Call(work)));
        for (const calls of all) for (const call of calls) turns.enter(calls, call);
        const doneBy = (calls: readonly Call[]) => calls.reduce((sum, { done }) => sum + done, 0);
        const total = connections.flat().reduce((sum, work) => sum + work, 0);
        for (let done = 0; done < total; ) {
          await nextTurn();
          done = Math.min(total, done + 16);
          expect(all.reduce((sum, calls) => sum + doneBy(calls), 0)).toBe(done);
          // Of those that still wait no connection is two pieces ahead.
          const waiting = all.filter((calls) => calls.some(({ work }) => work > 0)).map(doneBy);
          expect(Math.max(0, ...waiting) - Math.min(Number.POSITIVE_INFINITY, ...waiting)).toBeLessThanOrEqual(1);
        }
      }),
      { numRuns: runs(30) },
    );
  });

  // Promise(grpc): A caller with many calls of health and reflection delays only itself.
  test("come to a newcomer after one piece of each other connection at most, whatever those have waiting", async () => {
    const turns = new StreamTurns();
    for (let i = 0; i < 48; i++) {
      const connection = {};
      for (let call = 0; call < 10; call++) turns.enter(connection, new Call(1_000));
    }
    for (let i = 0; i < 10; i++) await nextTurn();
    const newcomer = new Call(1);
    turns.enter({}, newcomer);
    for (let i = 0; i < 4; i++) await nextTurn();
    expect(newcomer.done).toBe(1);
  });

  test("come to no call of a connection that has ended", async () => {
    const turns = new StreamTurns();
    const [gone, there] = [new Call(100), new Call(20)];
    turns.enter("gone", gone);
    turns.enter("there", there);
    await nextTurn();
    turns.leave("gone");
    for (let i = 0; i < 10; i++) await nextTurn();
    expect([gone.done, there.done]).toEqual([8, 20]);
  });
});
