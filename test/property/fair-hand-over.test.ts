// Turns and places of streams that grpc-js answers, against any mixture of peers: the bound holds, a peer with less than
// others gets a place, and whoever hands over much waits for itself.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FairHandOver, type TurnTaker } from "../../src/transport/fast-lane/fair-hand-over.ts";
import { runs } from "../support/runs.ts";

class Peer implements TurnTaker {
  streams = 0;
  turns = 0;
  work = 0;
  done = 0;
  readonly #turns: FairHandOver;
  readonly address: string;
  constructor(turns: FairHandOver, address = "") {
    this.address = address;
    this.#turns = turns;
  }
  takeTurn(): boolean {
    this.work--;
    this.done++;
    return this.work > 0;
  }
  displaceOne(): boolean {
    this.drop();
    return true;
  }
  open(): boolean {
    if (!this.#turns.mayOpen(this)) return false;
    this.streams++;
    this.#turns.noteOpened(this);
    return true;
  }
  drop(): void {
    if (this.streams === 0) return;
    this.streams--;
    this.#turns.noteEnding(this);
  }
}

describe("places", () => {
  const act = fc.record({ peer: fc.nat(7), opens: fc.boolean() });
  test("are never more than the bound, and who has less than another by two gets one", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), fc.array(act, { maxLength: 300 }), (max, acts) => {
        const turns = new FairHandOver(max);
        const peers = Array.from({ length: 8 }, () => new Peer(turns));
        for (const { peer: index, opens } of acts) {
          const peer = peers[index] as Peer;
          if (opens) {
            const most = Math.max(...peers.map(({ streams }) => streams));
            const isDue = turns.streams < max || most > peer.streams + 1;
            expect(peer.open()).toBe(isDue);
          } else peer.drop();
          expect(turns.streams).toBe(peers.reduce((sum, { streams }) => sum + streams, 0));
          expect(turns.streams).toBeLessThanOrEqual(max);
        }
      }),
      { numRuns: runs(200) },
    );
  });
});

describe("places of several addresses", () => {
  const act = fc.record({ peer: fc.nat(11), opens: fc.boolean() });
  // Promise(grpc): Streams that grpc-js answers share its room by address, then by connection; many of them delay only their caller.
  test("are shared out by address first: who has two less than another gets one, on however many connections", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), fc.array(act, { maxLength: 300 }), (max, acts) => {
        const turns = new FairHandOver(max);
        const peers = Array.from({ length: 12 }, (_, i) => new Peer(turns, `host ${i % 3}`));
        const at = (address: string) => peers.filter((peer) => peer.address === address);
        const heldAt = (address: string) => at(address).reduce((sum, { streams }) => sum + streams, 0);
        for (const { peer: index, opens } of acts) {
          const peer = peers[index] as Peer;
          if (!opens) {
            peer.drop();
            continue;
          }
          const others = peers.filter(({ address }) => address !== peer.address).map(({ address }) => heldAt(address));
          const isOtherFuller = Math.max(...others) > heldAt(peer.address) + 1;
          const isOwnFuller = Math.max(...at(peer.address).map(({ streams }) => streams)) > peer.streams + 1;
          const isDue = turns.streams < max || isOtherFuller || isOwnFuller;
          expect(peer.open()).toBe(isDue);
          expect(turns.streams).toBe(peers.reduce((sum, { streams }) => sum + streams, 0));
          expect(turns.streams).toBeLessThanOrEqual(max);
        }
      }),
      { numRuns: runs(200) },
    );
  });

  test("leave one for a newcomer from elsewhere while one host holds one on each of all connections", () => {
    const turns = new FairHandOver(768);
    const greedy = Array.from({ length: 768 }, () => new Peer(turns, "greedy"));
    for (const peer of greedy) peer.open();
    const newcomer = new Peer(turns, "other");
    expect([newcomer.open(), turns.streams]).toEqual([true, 768]);
    expect(new Peer(turns, "greedy").open()).toBe(false);
  });
});

describe("streams that are begun", () => {
  // Promise(grpc): Streams that grpc-js answers share its room by address, then by connection; many of them delay only their caller.
  test("leave the rest for later turns, in the order it came, and room in each turn for who has not waited", async () => {
    const burst = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(fc.array(burst, { minLength: 1, maxLength: 4 }), async (bursts) => {
        const turns = new FairHandOver(1);
        const order: number[] = [];
        let [next, begun, inTurn] = [0, 0, 0];
        const read = (count: number, number: number) => {
          order.push(number);
          for (let i = 0; i < count; i++) turns.noteBegun();
          begun += count;
          inTurn += count;
        };
        const late: number[] = [];
        const arrive = (count: number) => {
          const number = next++;
          if (!turns.isTurnFull) return read(count, number);
          late.push(number);
          turns.readLater(() => read(count, number));
        };
        for (const counts of bursts) {
          for (const count of counts) arrive(count);
          // One read goes past the bound at most, by what one socket brings.
          expect(inTurn).toBeLessThan(64 + 40 + 128 + 40);
          inTurn = 0;
          await new Promise((resolve) => setImmediate(resolve));
          expect(inTurn).toBeLessThan(64 + 40);
          expect(turns.isTurnFull).toBe(false);
        }
        for (let i = 0; i < 100; i++) await new Promise((resolve) => setImmediate(resolve));
        expect(begun).toBe(bursts.flat().reduce((sum, count) => sum + count, 0));
        expect(order.filter((number) => late.includes(number))).toEqual(late);
      }),
      { numRuns: runs(40) },
    );
  });
});

describe("turns", () => {
  test("do one piece of work each, and peers take them one after another", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 8 }), async (work) => {
        const turns = new FairHandOver(1);
        const peers = work.map((pieces) => {
          const peer = new Peer(turns);
          peer.work = pieces;
          turns.enter(peer);
          return peer;
        });
        const all = work.reduce((sum, pieces) => sum + pieces, 0);
        for (let turn = 1; turn <= all; turn++) {
          await new Promise((resolve) => setImmediate(resolve));
          expect(peers.reduce((sum, { done }) => sum + done, 0)).toBe(turn);
          // Of those that still wait nobody is two pieces ahead.
          const waiting = peers.filter(({ work: left }) => left > 0).map(({ done }) => done);
          expect(Math.max(0, ...waiting) - Math.min(Number.POSITIVE_INFINITY, ...waiting)).toBeLessThanOrEqual(1);
        }
      }),
      { numRuns: runs(30) },
    );
  });

  test("are every other one for connections that are gone, as long as there are such", async () => {
    const turns = new FairHandOver(1);
    const seen: string[] = [];
    for (const name of ["first", "second", "third"]) turns.endLater(() => seen.push(name));
    const peer = new Peer(turns);
    peer.takeTurn = () => seen.push("piece") < 8;
    turns.enter(peer);
    for (let turn = 1; turn <= 8; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
      expect(seen).toHaveLength(turn);
    }
    expect(seen).toEqual(["first", "piece", "second", "piece", "third", "piece", "piece", "piece"]);
    turns.endLater(() => seen.push("last"));
    await new Promise((resolve) => setImmediate(resolve));
    expect(seen.at(-1)).toBe("last");
  });

  // Promise(grpc): Streams that grpc-js answers share its room by address, then by connection; many of them delay only their caller.
  test("go first to a newcomer, however many have had one already", async () => {
    const turns = new FairHandOver(1);
    const enter = (work: number): Peer => {
      const peer = new Peer(turns);
      peer.work = work;
      turns.enter(peer);
      return peer;
    };
    for (let i = 0; i < 100; i++) enter(1_000);
    for (let i = 0; i < 100; i++) await new Promise((resolve) => setImmediate(resolve));
    const newcomer = enter(1);
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    expect(newcomer.done).toBe(1);
  });
});
