// What comes in for one server, and how each group is answered once, whatever becomes of its batch. No server is needed: the tests stand where
// one would.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { StoreError } from "../../../../src/base/errors.ts";
import { TakeGroup } from "../../../../src/engine/domain/take.ts";
import type { BatchingOptions } from "../../../../src/stores/batching/options.ts";
import { SILENT_STORE_OBSERVER } from "../../../../src/stores/store-observer.ts";
import { makeLimit } from "../../../support/builders.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { allowing, giveBacksOf, SmallBatch, TestIntake } from "../../../support/test-intake.ts";

const limit = makeLimit({ amount: 7 });
const lost = new StoreError("STORE_UNREACHABLE", "the connection is gone");
const clock = new ManualClock();
let turns = 0;

function open(options: Partial<BatchingOptions> = {}, isOneByOne = false, takesMax = 3): TestIntake {
  return new TestIntake({
    options: { clock, deadlineMs: 15, patienceMs: 100, ...options },
    newBatch: (queue) => new SmallBatch(queue, takesMax),
    send: () => {
      turns++;
    },
    probe: { bucketKey: "own", queue: 3 },
    isOneByOne,
  });
}

/** A group of one take, and how often it was answered. */
class Call {
  readonly group = new TakeGroup();
  answers = 0;

  constructor(key: string) {
    this.group.add(limit).bucketKey = key;
  }

  answered(): void {
    this.answers++;
  }

  /** Why it failed, with a question mark if it may have been counted all the same. */
  get code(): string | undefined {
    const { failure } = this.group;
    return failure === undefined ? undefined : `${failure.code}${failure.isOutcomeUnknown ? "?" : ""}`;
  }
}

function take(intake: TestIntake, key: string, queue = 0, leftMs = Number.POSITIVE_INFINITY): Call {
  const call = new Call(key);
  call.group.deadlineUs = clock.nowUs() + leftMs * 1_000;
  if (intake.take(call.group, call, queue)) call.answered();
  return call;
}

/** Takes, and sends the batch. */
function sendOne(intake: TestIntake, key: string, queue = 0, leftMs = Number.POSITIVE_INFINITY): [Call, SmallBatch] {
  const call = take(intake, key, queue, leftMs);
  return [call, nextOf(intake)];
}

function nextOf(intake: TestIntake): SmallBatch {
  const batch = intake.next();
  if (batch === undefined) throw new Error("nothing may leave");
  return batch;
}

async function passMs(ms: number): Promise<void> {
  clock.advanceMs(ms);
  await vi.advanceTimersByTimeAsync(ms);
  // Deadlines are acted on after the sockets were read, in a setImmediate of their own.
  await vi.advanceTimersByTimeAsync(1);
}

beforeEach(() => {
  vi.useFakeTimers();
  turns = 0;
});
afterEach(() => {
  vi.useRealTimers();
});

describe("groups of one turn", () => {
  test("travel together, in as many batches as they need", async () => {
    const intake = open();
    for (const key of ["a", "b", "c", "d"]) take(intake, key);
    await vi.advanceTimersByTimeAsync(0);
    expect(turns).toBe(1);
    expect(intake.ready().map((batch) => batch.takes)).toEqual([3, 1]);
    expect(intake.ready()).toEqual([]);
  });
});

describe("a server with two calls under way", () => {
  function busy(isOneByOne = false): { intake: TestIntake; underWay: SmallBatch[] } {
    const intake = open({}, isOneByOne);
    return { intake, underWay: ["a", "b"].map((key) => sendOne(intake, key)[1]) };
  }

  test("gets what comes meanwhile in one call, as soon as it has answered one", async () => {
    const { intake, underWay } = busy();
    for (const key of ["c", "d"]) {
      take(intake, key);
      expect(intake.ready()).toEqual([]);
    }
    await vi.advanceTimersByTimeAsync(0);
    turns = 0;
    const [first] = underWay as [SmallBatch];
    intake.answers.answer(first, allowing(first));
    await vi.advanceTimersByTimeAsync(0);
    expect(turns).toBe(1);
    expect(intake.ready().map(({ takes }) => takes)).toEqual([2]);
  });

  test.each([
    { ways: "a connection for all", isOneByOne: false, sent: [3] },
    { ways: "connections for one call each", isOneByOne: true, sent: [] },
  ])("gets a call that is full at once over $ways", ({ isOneByOne, sent }) => {
    const { intake } = busy(isOneByOne);
    for (const key of ["c", "d", "e", "f"]) take(intake, key);
    expect(intake.ready().map(({ takes }) => takes)).toEqual(sent);
  });

  test("gets takes of another queue at once", () => {
    const { intake } = busy();
    take(intake, "c");
    take(intake, "d", 8);
    expect(intake.ready().map(({ queue }) => queue)).toEqual([8]);
  });

  test.each([
    ["fails", (intake: TestIntake, batch: SmallBatch) => intake.answers.fail(batch, lost)],
    ["loses", (intake: TestIntake, batch: SmallBatch) => intake.answers.lose(batch, lost)],
    ["gives away", (intake: TestIntake, batch: SmallBatch) => intake.answers.release(batch)],
  ])("and %s one has room again", (_what, end) => {
    const { intake, underWay } = busy();
    take(intake, "c");
    end(intake, underWay[0] as SmallBatch);
    expect(intake.ready()).toHaveLength(1);
  });

  test("and never answers one has room again once its calls time out", async () => {
    const { intake, underWay } = busy();
    // The calls under way have no deadline of their own: they wait for as long as patience lasts.
    await passMs(60);
    take(intake, "c", 0, 200);
    expect(intake.ready()).toEqual([]);
    turns = 0;
    await passMs(41);
    expect(turns).toBeGreaterThan(0);
    expect(intake.ready()).toHaveLength(1);
    // Their answers come late, and leave no more room than they took.
    for (const batch of underWay) intake.answers.answer(batch, allowing(batch));
    expect(intake.underWay(0)).toBe(1);
  });

  test("keeps one place for a call that is sent twice", () => {
    const { intake, underWay } = busy();
    const [first] = underWay as [SmallBatch];
    intake.answers.begin(first);
    intake.answers.answer(first, allowing(first));
    expect(intake.underWay(0)).toBe(1);
  });

  // Promise(outages): A take held back for batching is answered within its deadline.
  test("holds no call beyond its deadline", async () => {
    const { intake } = busy();
    const call = take(intake, "c");
    await passMs(0);
    await passMs(100);
    expect([call.answers, call.code]).toEqual([1, "STORE_TIMEOUT"]);
    expect(intake.ready()).toEqual([]);
    expect(intake.answers.takes).toBe(2);
  });
});

describe("a group is answered once", () => {
  test("by its deadline, and what was paid after it is given back", async () => {
    const undone: string[] = [];
    const intake = open({ onUndone: ({ bucketKey }) => undone.push(bucketKey) });
    const [call, batch] = sendOne(intake, "c", 0, 20);
    const [patient] = sendOne(intake, "b");
    await passMs(14);
    expect(call.answers).toBe(0);
    await passMs(1);
    expect([call.answers, call.code, patient.answers]).toEqual([1, "STORE_TIMEOUT?", 0]);
    // Those that have no deadline of their own wait for as long as patience lasts.
    await passMs(85);
    expect(patient.code).toBe("STORE_TIMEOUT?");
    intake.answers.answer(batch, allowing(batch));
    expect(call.answers).toBe(1);
    expect(giveBacksOf(nextOf(intake))).toMatchObject([{ bucketKey: "c", limit, cost: 1, paidAtUs: 77 }]);
    expect(undone).toEqual(["c"]);
  });

  test("at once if its own deadline passed before it could be sent", () => {
    const intake = open();
    const call = take(intake, "a", 0, 5);
    clock.advanceMs(6);
    expect(intake.ready()).toEqual([]);
    expect([call.answers, call.code]).toEqual([1, "STORE_TOO_LATE"]);
  });

  test("when the connection is lost, if it was sent", () => {
    const intake = open();
    const [sent] = sendOne(intake, "a");
    const waiting = take(intake, "b");
    intake.answers.loseSent(lost);
    expect([sent.code, waiting.answers]).toEqual(["STORE_UNREACHABLE?", 0]);
    intake.failGathered();
    expect(waiting.code).toBe("STORE_UNREACHABLE");
  });

  test("by another server, in its time, if its own hands the batch over", async () => {
    const here = open();
    const there = open();
    const calls = [take(here, "a"), take(here, "b")];
    const batch = nextOf(here);
    await passMs(60);
    here.answers.release(batch);
    expect(here.answers.takes).toBe(0);
    there.answers.adopt(batch);
    expect(there.answers.begin(batch)).toBe(true);
    expect(there.answers.takes).toBe(2);
    await passMs(39);
    expect(calls.map(({ answers }) => answers)).toEqual([0, 0]);
    await passMs(1);
    expect(calls.map(({ code }) => code)).toEqual(["STORE_TIMEOUT?", "STORE_TIMEOUT?"]);
    there.answers.answer(batch, allowing(batch));
    expect(giveBacksOf(there.next()).map(({ bucketKey }) => bucketKey)).toEqual(["a", "b"]);
    expect(here.next()).toBeUndefined();
  });
});

describe("a server that hands its keys over", () => {
  const breaker = { windowUs: 1_000_000, outcomesMin: 5, failureShare: 0.5, pauseUs: 250_000 };

  // Promise(redis): Calls that can wait are answered while a Cluster primary hands over, and its silence counts no failure.
  test.each([
    { calls: 1, silentMs: 100 },
    { calls: 5, silentMs: 100 },
    { calls: 100, silentMs: 100 },
    { calls: 50, silentMs: 90 },
  ])(
    "and was silent for $calls calls for $silentMs ms is believed again, and the next one is not blamed",
    async ({ calls, silentMs }) => {
      const states: string[] = [];
      const observer = { ...SILENT_STORE_OBSERVER, breakerChanged: (_: string, state: string) => states.push(state) };
      const from = open({ breaker });
      const to = open({ breaker, observer });
      const batches = Array.from({ length: calls }, (_, queue) => sendOne(from, `k${queue}`, queue)[1]);
      await passMs(silentMs);
      const isBlamed = silentMs === 100 && calls >= breaker.outcomesMin;
      expect(take(from, "other").answers).toBe(isBlamed ? 1 : 0);
      for (const batch of batches) {
        from.answers.release(batch);
        to.answers.adopt(batch);
        expect(to.answers.begin(batch)).toBe(silentMs < 100);
      }
      await passMs(100 - silentMs);
      expect(states).toEqual([]);
      expect([take(from, "a").answers, take(to, "b").answers]).toEqual([0, 0]);
    },
  );
});

describe("a take fails at once", () => {
  test("while the server is away", () => {
    const intake = open();
    intake.isUp = false;
    const call = take(intake, "a");
    expect([call.answers, call.code, call.group.failure?.message]).toEqual([
      1,
      "STORE_UNREACHABLE",
      "The server is away",
    ]);
  });

  test("beyond the takes that may be under way, those that wait included", () => {
    const intake = open({ takesInFlightMax: 2 });
    const [, batch] = sendOne(intake, "a");
    expect(take(intake, "b").answers).toBe(0);
    expect(take(intake, "c").code).toBe("STORE_QUEUE_FULL");
    intake.answers.answer(batch, allowing(batch));
    expect(take(intake, "c").answers).toBe(0);
  });

  test("while the breaker is open; a take of Headgate's own goes out as a probe after each pause", async () => {
    const intake = open({ breaker: { windowUs: 1_000_000, outcomesMin: 1, failureShare: 0.5, pauseUs: 250_000 } });
    intake.answers.fail(sendOne(intake, "a")[1], lost);
    expect(take(intake, "b").code).toBe("STORE_BREAKER_OPEN");
    expect(intake.trouble()).toContain("the breaker is open");
    for (const isWell of [false, true]) {
      await passMs(250);
      expect(take(intake, "b").code).toBe("STORE_BREAKER_OPEN");
      const [probe, ...others] = intake.ready() as [SmallBatch];
      expect([probe.queue, probe.groups[0]?.group.takes[0]?.bucketKey, others]).toEqual([3, "own:probe", []]);
      if (isWell) intake.answers.answer(probe, allowing(probe));
      else intake.answers.fail(probe, lost);
    }
    expect([take(intake, "b").answers, intake.trouble()]).toEqual([0, undefined]);
  });

  test("and a new connection is probed at once", () => {
    const intake = open({ breaker: { windowUs: 1_000_000, outcomesMin: 1, failureShare: 0.5, pauseUs: 250_000 } });
    intake.answers.fail(sendOne(intake, "a")[1], lost);
    intake.onUp();
    const probe = nextOf(intake);
    intake.answers.answer(probe, allowing(probe));
    expect(intake.trouble()).toBeUndefined();
  });
});

describe("a server that owes an answer for too long is given up", () => {
  test("once for each call that has none", async () => {
    const intake = open({ silenceMsMax: 5_000 });
    sendOne(intake, "a");
    await passMs(4_950);
    sendOne(intake, "b");
    expect(intake.silent).toEqual([]);
    await passMs(100);
    expect(intake.silent).toEqual(["has not answered for 5 seconds"]);
    await passMs(5_000);
    expect(intake.silent).toHaveLength(2);
  });

  test("if it owes it only to give-backs", async () => {
    const intake = open({ silenceMsMax: 5_000 });
    giveBack(intake, 1);
    nextOf(intake);
    await passMs(4_999);
    expect(intake.silent).toEqual([]);
    await passMs(2);
    expect(intake.silent).toHaveLength(1);
  });

  test.each([{ deadlineMs: 15_000 }, { patienceMs: 15_000 }])(
    "but not before $deadlineMs$patienceMs ms, in which calls wait for it",
    async (waits) => {
      const intake = open({ silenceMsMax: 5_000, ...waits });
      sendOne(intake, "a");
      await passMs(14_999);
      expect(intake.silent).toEqual([]);
      await passMs(10);
      expect(intake.silent).toHaveLength(1);
    },
  );
});

/** Has `count` payments of a queue given back. */
function giveBack(intake: TestIntake, count: number, queue = 0): void {
  for (let i = 0; i < count; i++) {
    const { group } = new Call(`k${i}`);
    Object.assign(group.takes[0] ?? {}, { paid: true, paidAtUs: 5 });
    intake.giveBack(group, queue);
  }
}

describe("what is to be given back", () => {
  const open64 = (isOneByOne = false) => open({}, isOneByOne, 64);
  const sizes = (batches: readonly SmallBatch[]) => batches.map((batch) => giveBacksOf(batch).length);

  test("waits until the server is up, and then travels in eight calls at a time", async () => {
    const intake = open64();
    intake.isUp = false;
    giveBack(intake, 600);
    await vi.advanceTimersByTimeAsync(0);
    expect(turns).toBe(0);
    intake.isUp = true;
    intake.onUp();
    await vi.advanceTimersByTimeAsync(0);
    turns = 0;
    // Seven are full, and the last one waits for takes to join it as long as two are under way.
    const first = intake.ready();
    expect(sizes(first)).toEqual([64, 64, 64, 64, 64, 64, 64]);
    await vi.advanceTimersByTimeAsync(10);
    expect([turns, intake.ready()]).toEqual([0, []]);
    for (const batch of first.slice(0, 6)) intake.answers.answer(batch, allowing(batch));
    await vi.advanceTimersByTimeAsync(0);
    expect(turns).toBe(1);
    expect(sizes(intake.ready())).toEqual([64, 64]);
  });

  // Promise(outages): Takes and give-backs don't wait for each other.
  test("leaves room for takes, and for others where no take waits", async () => {
    const intake = open64();
    giveBack(intake, 130);
    expect(sizes(intake.ready())).toEqual([64, 64]);
    take(intake, "a", 0, 200);
    expect(intake.ready()).toEqual([]);
    await passMs(0);
    await passMs(100);
    const calls = ["b", "c"].map((key) => sendOne(intake, key)[1]);
    expect(calls.map(({ takes }) => takes)).toEqual([1, 1]);
  });

  test("and may still run on the server is reported, however late its answer comes", async () => {
    const kept: number[] = [];
    const gave: number[] = [];
    const observer = {
      ...SILENT_STORE_OBSERVER,
      keptPaid: (takes: number) => kept.push(takes),
      gaveBack: (takes: number) => gave.push(takes),
    };
    const intake = open({ observer });
    giveBack(intake, 3);
    const first = nextOf(intake);
    giveBack(intake, 2);
    const second = nextOf(intake);
    await passMs(1_000);
    intake.answers.answer(first, allowing(first));
    intake.answers.lose(second, lost);
    expect([gave, kept]).toEqual([
      [1, 1, 1],
      [1, 1],
    ]);
  });

  test("of one call over several queues leaves at once", () => {
    const intake = open64();
    for (let queue = 0; queue < 6; queue++) giveBack(intake, 1, queue);
    expect(intake.ready().map(({ queue }) => queue)).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test("takes turns with takes over a single connection", () => {
    const intake = open64(true);
    giveBack(intake, 9_000);
    const kinds = Array.from({ length: 4 }, (_, i) => {
      take(intake, `k${i}`, 1);
      const batch = nextOf(intake);
      intake.answers.answer(batch, allowing(batch));
      return [batch.queue, batch.takes];
    });
    expect(kinds).toEqual([
      [0, 64],
      [1, 2],
      [0, 64],
      [1, 2],
    ]);
  });

  test("uses one connection of several", () => {
    const intake = open64(true);
    giveBack(intake, 9_000);
    take(intake, "a", 1);
    expect(sizes(intake.ready())).toEqual([64, 0]);
  });
});
