// Whatever happens to a server and its callers: each call is answered once, and when the server is well again, so are the calls.

import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { StoreError } from "../../src/base/errors.ts";
import { MICROS_PER_MILLI } from "../../src/base/units.ts";
import { TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { allowing, SmallBatch, TestIntake } from "../support/test-intake.ts";

const limit = makeLimit({ amount: 7 });
const LOST = new StoreError("STORE_UNREACHABLE", "the connection is gone");
/** The breaker's pause is 250 ms. */
const ROUND_MS = 300;

class World {
  readonly clock = new ManualClock();
  readonly intake = new TestIntake({
    options: { clock: this.clock, deadlineMs: 15 },
    newBatch: (queue) => new SmallBatch(queue),
    probe: { bucketKey: "own", queue: 9 },
    isOneByOne: true,
    send: () => {
      if (!this.isWell) return;
      this.send();
      while (this.sent.length > 0) this.answer(0, "allows");
    },
  });
  /** Whether at each turn's end the server does all that it is asked. */
  isWell = false;
  readonly calls: { group: TakeGroup; answers: number }[] = [];
  sent: SmallBatch[] = [];

  take(queue: number, deadlineMs = Number.POSITIVE_INFINITY): TakeGroup {
    const group = new TakeGroup();
    group.add(limit).bucketKey = "a";
    group.deadlineUs = this.clock.nowUs() + deadlineMs * MICROS_PER_MILLI;
    const call = { group, answers: 0 };
    this.calls.push(call);
    const settled = () => {
      call.answers++;
    };
    if (this.intake.take(group, { answered: settled }, queue)) settled();
    return group;
  }

  async passMs(ms: number): Promise<void> {
    this.clock.advanceMs(ms);
    await vi.advanceTimersByTimeAsync(ms);
    await vi.advanceTimersByTimeAsync(1);
  }

  /** Sends what may be sent, `most` batches at most. */
  send(most = Number.POSITIVE_INFINITY): void {
    if (!this.intake.isUp) return;
    for (let i = 0; i < most; i++) {
      const batch = this.intake.next();
      if (batch === undefined) break;
      this.sent.push(batch);
    }
  }

  answer(which: number, how: "allows" | "refuses"): void {
    const [batch] = this.sent.splice(which % Math.max(1, this.sent.length), 1);
    if (batch === undefined || batch.state === "done") return;
    if (how === "refuses") {
      this.intake.onRefusal("no");
      this.intake.answers.fail(batch, new StoreError("STORE_COMMAND", "no"));
      return;
    }
    this.intake.onReply(batch, allowing(batch, this.clock.nowUs()), { name: "", reconnect: () => undefined });
  }

  goDown(): void {
    this.intake.isUp = false;
    this.sent = [];
    this.intake.answers.loseSent(LOST);
    this.intake.failGathered();
  }

  comeUp(): void {
    if (this.intake.isUp) return;
    this.intake.isUp = true;
    this.intake.onUp();
  }
}

const event = fc.oneof(
  { weight: 6, arbitrary: fc.record({ take: fc.nat({ max: 2 }), deadlineMs: fc.constantFrom(1, 5, 1_000) }) },
  // Enough that get no answer to open the breaker, and the end of its pause.
  { weight: 2, arbitrary: fc.record({ silent: fc.integer({ min: 20, max: 40 }) }) },
  { weight: 4, arbitrary: fc.record({ passMs: fc.constantFrom(0, 2, 16, 30, 260) }) },
  { weight: 3, arbitrary: fc.record({ send: fc.constantFrom(0, 1, 100) }) },
  {
    weight: 2,
    arbitrary: fc.record({ answer: fc.nat({ max: 5 }), how: fc.constantFrom("allows" as const, "refuses") }),
  },
  { weight: 1, arbitrary: fc.constant({ turnsTo: "down" as const }) },
  { weight: 2, arbitrary: fc.constant({ turnsTo: "up" as const }) },
);

type Event = typeof event extends fc.Arbitrary<infer E> ? E : never;

/** What has gone wrong once. */
const FOUND: Event[][] = [
  // The calls of a probe end before it can be sent, and then the connection is lost.
  [{ silent: 30 }, { take: 0, deadlineMs: 1 }, { passMs: 2 }, { send: 100 }, { turnsTo: "down" }],
  // A batch whose calls have ended leaves before a probe.
  [{ silent: 20 }, { turnsTo: "down" }, { turnsTo: "up" }, { take: 0, deadlineMs: 1 }, { passMs: 16 }],
  // A call joins a batch that waits, and both their times end before it is sent.
  [{ take: 0, deadlineMs: 1 }, { send: 0 }, { take: 0, deadlineMs: 1 }, { take: 0, deadlineMs: 1_000 }, { passMs: 2 }],
];

async function apply(world: World, event: Event): Promise<void> {
  if ("take" in event) world.take(event.take, event.deadlineMs);
  else if ("silent" in event) {
    for (let i = 0; i < event.silent; i++) world.take(i % 3);
    world.send();
    await world.passMs(16);
    await world.passMs(260);
  } else if ("passMs" in event) await world.passMs(event.passMs);
  else if ("send" in event) world.send(event.send);
  else if ("answer" in event) world.answer(event.answer, event.how);
  else if (event.turnsTo === "down") world.goDown();
  else world.comeUp();
}

/** Three pauses of the breaker, in which the server does all that it is asked. */
async function beWell(world: World, each: (round: number) => void): Promise<void> {
  world.comeUp();
  world.isWell = true;
  for (let round = 0; round < 3; round++) {
    await world.passMs(ROUND_MS);
    each(round);
    await world.passMs(1);
  }
}

async function check(property: (world: World) => Promise<void>): Promise<void> {
  vi.useFakeTimers();
  try {
    await fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 60 }), async (events) => {
        const world = new World();
        for (const event of events) await apply(world, event);
        await property(world);
      }),
      { numRuns: runs(1_000), examples: FOUND.map((events) => [events]) },
    );
  } finally {
    vi.useRealTimers();
  }
}

// Promise(outages): Each call is answered exactly once, whatever happens to the server and its callers.
test("each call is answered once, and a recovered server answers within two pauses of the breaker", async () => {
  await check(async (world) => {
    let last = world.take(0);
    await beWell(world, (round) => {
      last = world.take(round % 3);
    });
    expect([last.verdict, last.failure?.code]).toEqual([Verdict.allowed, undefined]);
    await world.passMs(ROUND_MS);
    expect(new Set(world.calls.map(({ answers }) => answers))).toEqual(new Set([1]));
  });
});

// Promise(outages): A process out of rotation because of its store returns by itself, even without calls.
test("a recovered server is noticed within three pauses of the breaker, even without takes", async () => {
  await check(async (world) => {
    await beWell(world, () => undefined);
    expect(world.intake.trouble()).toBeUndefined();
  });
});
