// The client's side of the stream under every order of events: ends at any moment, answers that are late, repeated or
// overtaken, bad sets between good ones. The server here behaves as go-control-plane's snapshot cache does.

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type SessionAnswer, type StreamRequest, XdsSession } from "../../src/rule-sources/xds/session.ts";
import { runs } from "../support/runs.ts";

const PAUSES = { initialMs: 1_000, maxMs: 60_000, jitters: true };

/** A set that a server may serve: what it holds tells whether it is good. */
interface Served {
  readonly version: string;
  readonly digest: string;
  readonly isBad: boolean;
}

/** A client and a server that talk over streams, with time moved by hand. */
class World {
  nowMs = 0;
  inForce: string | undefined;
  readonly refusalsAtMs: number[] = [];
  judged = 0;
  readonly opensAtMs: number[] = [];
  readonly #session: XdsSession<SessionAnswer>;
  #served: Served | undefined;
  #judging: SessionAnswer | undefined;
  /** The stream as the server has it; undefined without one. */
  #stream: { readonly number: number; lastNonce: string; asked: string | undefined } | undefined;
  #nonce = 0;
  /** What old streams still have in their pipes. */
  readonly #late: { readonly stream: number; readonly answer: SessionAnswer }[] = [];

  constructor(random: () => number) {
    const hands = {
      open: (stream: number) => this.#open(stream),
      close: () => undefined,
      send: (request: StreamRequest) => this.#hear(request),
      judge: (answer: SessionAnswer) => {
        expect(this.#judging).toBeUndefined();
        this.#judging = answer;
      },
    };
    this.#session = new XdsSession<SessionAnswer>(hands, PAUSES, random);
    this.#session.start(0);
  }

  get session(): XdsSession<SessionAnswer> {
    return this.#session;
  }

  serve(served: Served): void {
    this.#served = served;
    this.#respond();
  }

  /** Sends a set without waiting for a request. */
  send(served: Served): void {
    this.#served = served;
    if (this.#stream !== undefined) this.#send(this.#stream.number);
  }

  /** The client's verdict on what it was given last. */
  judge(): void {
    const answer = this.#judging;
    if (answer === undefined) return;
    this.#judging = undefined;
    this.judged++;
    const isBad = answer.digest.startsWith("bad");
    if (!isBad) this.inForce = answer.digest;
    this.#session.judged(isBad ? `no: ${answer.digest}` : undefined, this.nowMs);
  }

  cut(): void {
    if (this.#stream === undefined) return;
    const { number } = this.#stream;
    this.#stream = undefined;
    this.#session.ended(number, "cut", this.nowMs);
  }

  /** Something of an older stream arrives after all. */
  arriveLate(): void {
    const late = this.#late.shift();
    if (late === undefined || late.stream === this.#stream?.number) return;
    this.#session.answered(late.stream, late.answer, this.nowMs);
    this.#session.ended(late.stream, "late", this.nowMs);
  }

  /** The server sends what it has sent already. */
  repeat(): void {
    if (this.#stream !== undefined && this.#stream.lastNonce !== "") this.#send(this.#stream.number);
  }

  pass(ms: number): void {
    const endMs = this.nowMs + ms;
    while (this.#session.wakeAtMs <= endMs) {
      this.nowMs = Math.max(this.nowMs, this.#session.wakeAtMs);
      this.#session.wake(this.nowMs);
    }
    this.nowMs = endMs;
  }

  #open(number: number): void {
    expect(this.#stream).toBeUndefined();
    this.opensAtMs.push(this.nowMs);
    this.#stream = { number, lastNonce: "", asked: undefined };
    this.#session.connected(number);
  }

  #hear({ version, nonce, refusal }: StreamRequest): void {
    const stream = this.#stream;
    if (stream === undefined) throw new Error("a request on no stream");
    if (stream.lastNonce === "") expect([version, nonce, refusal]).toEqual(["", "", undefined]);
    // What is about an older answer is passed over without a word.
    if (stream.lastNonce !== "" && nonce !== stream.lastNonce)
      throw new Error(`a request about ${nonce}, which is not the last`);
    if (refusal !== undefined) {
      expect(refusal).toMatch(/^no: bad/);
      this.refusalsAtMs.push(this.nowMs);
    }
    stream.asked = version;
    this.#respond();
  }

  #respond(): void {
    const stream = this.#stream;
    if (stream?.asked === undefined || this.#served === undefined || stream.asked === this.#served.version) return;
    stream.asked = undefined;
    this.#send(stream.number);
  }

  #send(stream: number): void {
    const { version, digest } = this.#served as Served;
    const answer = { version, digest, nonce: String(++this.#nonce) };
    if (this.#stream !== undefined) this.#stream.lastNonce = answer.nonce;
    this.#late.push({ stream, answer });
    this.#session.answered(stream, answer, this.nowMs);
  }
}

const step = fc.oneof(
  { weight: 3, arbitrary: fc.nat(5).map((number) => ({ kind: "good", number }) as const) },
  { weight: 2, arbitrary: fc.nat(2).map((number) => ({ kind: "bad", number }) as const) },
  { weight: 6, arbitrary: fc.constant({ kind: "judge" } as const) },
  { weight: 2, arbitrary: fc.constant({ kind: "cut" } as const) },
  { weight: 2, arbitrary: fc.constant({ kind: "late" } as const) },
  { weight: 2, arbitrary: fc.constant({ kind: "repeat" } as const) },
  { weight: 4, arbitrary: fc.nat(40_000).map((ms) => ({ kind: "pass", ms }) as const) },
);

describe("a client of a control plane", () => {
  // Promise(xds): The last good set, and the last good files with it, end up in force, whatever the order of events.
  test("asks again on each stream, answers the last answer alone, and has the last good set in force in the end", () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 60 }),
        fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })),
        (steps, draws) => {
          const world = new World(() => draws.next().value ?? 0.5);
          let version = 0;
          for (const each of steps) {
            if (each.kind === "good")
              world.serve({ version: String(++version % 4), digest: `good ${each.number}`, isBad: false });
            else if (each.kind === "bad")
              world.serve({ version: String(++version % 4), digest: `bad ${each.number}`, isBad: true });
            else if (each.kind === "judge") world.judge();
            else if (each.kind === "cut") world.cut();
            else if (each.kind === "late") world.arriveLate();
            else if (each.kind === "repeat") world.repeat();
            else world.pass(each.ms);
          }
          world.serve({ version: "last", digest: "good last", isBad: false });
          for (let looks = 0; looks < 10; looks++) {
            world.judge();
            world.pass(60_000);
          }
          expect(world.inForce).toBe("good last");
        },
      ),
      { numRuns: runs(300) },
    );
  });

  // Promise(xds): A rejected set that is sent again and again is answered after 1 s, 2 s, up to 30 s.
  test("refuses a set that comes again and again after 1 s, 2 s, ... 30 s, whatever ends in between", () => {
    const world = new World(() => 0.5);
    world.serve({ version: "1", digest: "bad", isBad: true });
    world.judge();
    world.pass(200_000);
    const gaps = world.refusalsAtMs.map((atMs, i) => atMs - (world.refusalsAtMs[i - 1] ?? 0));
    expect(gaps).toEqual([0, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000, 30_000, 30_000]);
    // Another bad set is told of soon, and the good one ends it.
    world.serve({ version: "2", digest: "bad too", isBad: true });
    world.pass(30_000);
    world.judge();
    world.pass(1_000);
    expect(world.refusalsAtMs.length).toBeGreaterThan(gaps.length + 1);
  });

  // Promise(xds): However often sets come, five are judged at once and then one a second, the newest.
  test.each([{ everyMs: 100 }, { everyMs: 10 }])("judges a new set every $everyMs ms once a second", ({ everyMs }) => {
    for (const isBad of [true, false]) {
      const world = new World(() => 0.5);
      for (let number = 0; world.nowMs < 10_000; number++) {
        world.send({ version: `v${number}`, digest: `${isBad ? "bad" : "good"} ${number}`, isBad });
        world.judge();
        world.pass(everyMs);
      }
      expect(world.judged).toBeGreaterThanOrEqual(14);
      expect(world.judged).toBeLessThanOrEqual(15);
      expect(world.session.refusals).toBe(isBad ? world.judged : 0);
      // The last one is answered: nothing newer takes its place.
      world.judge();
      world.pass(1_000);
      world.judge();
      expect(world.refusalsAtMs.at(-1) ?? 0).toBe(isBad ? world.nowMs : 0);
    }
  });

  test("refuses a set that is sent a hundred times a second no later for that", () => {
    const world = new World(() => 0.5);
    world.serve({ version: "1", digest: "bad", isBad: true });
    world.judge();
    for (let sent = 0; sent < 1_600; sent++) {
      world.repeat();
      world.pass(10);
    }
    expect(world.refusalsAtMs.map((ms) => Math.floor(ms / 1_000))).toEqual([0, 1, 3, 7, 15]);
  });

  test("pauses double up to their bound while nothing answers, and begin again when something has", () => {
    const world = new World(() => 1);
    for (let ends = 0; ends < 9; ends++) {
      world.cut();
      world.pass(60_000);
    }
    const gaps = world.opensAtMs.slice(1).map((atMs, i) => atMs - 60_000 * i);
    expect(gaps).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
    world.serve({ version: "1", digest: "good", isBad: false });
    world.cut();
    const cutAtMs = world.nowMs;
    world.pass(60_000);
    expect((world.opensAtMs.at(-1) ?? 0) - cutAtMs).toBe(1_000);
  });
});
