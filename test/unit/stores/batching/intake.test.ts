// What comes in for one server, and how each group is answered once, whatever becomes of its batch. No server is needed:
// the tests stand where one would.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { StoreError } from "../../../../src/engine/base/errors.ts";
import { TakeGroup, Verdict } from "../../../../src/engine/domain/take.ts";
import { Batch } from "../../../../src/stores/batching/batch.ts";
import { Intake } from "../../../../src/stores/batching/intake.ts";
import { type BatchingOptions, completeOptions } from "../../../../src/stores/batching/options.ts";
import { ReplyReader } from "../../../../src/stores/batching/reply.ts";
import { SILENT_STORE_OBSERVER } from "../../../../src/stores/store-observer.ts";
import { makeLimit } from "../../../support/builders.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

const limit = makeLimit({ amount: 7 });
const lost = new StoreError("STORE_UNREACHABLE", "the connection is gone");

class SmallBatch extends Batch {
  hasRoomFor(group: TakeGroup): boolean {
    return this.takes + group.size <= 3;
  }
}

const clock = new ManualClock();
let isUp = true;
let turns = 0;
const silent: string[] = [];

function open(options: BatchingOptions = {}): Intake<SmallBatch> {
  return new Intake(completeOptions({ clock, deadlineMs: 15, patienceMs: 100, ...options }), {
    name: "The server",
    newBatch: (queue) => new SmallBatch(queue),
    isUp: () => isUp,
    downSentence: () => "The server is away",
    send: () => {
      turns++;
    },
    probeBucket: () => ({ bucketKey: "own", queue: 3 }),
    onSilence: (_batch, trouble) => silent.push(trouble),
  });
}

/** A group of one take, and how often it was answered. */
class Call {
  readonly group = new TakeGroup();
  answers = 0;

  constructor(key: string) {
    this.group.add(limit).bucketKey = key;
  }

  settled(): void {
    this.answers++;
  }

  /** Why it failed, with a question mark if it may have been counted all the same. */
  get code(): string | undefined {
    const { failure } = this.group;
    return failure === undefined ? undefined : `${failure.code}${failure.isOutcomeUnknown ? "?" : ""}`;
  }
}

function take(intake: Intake<SmallBatch>, key: string, queue = 0): Call {
  const call = new Call(key);
  if (intake.take(call.group, call, queue)) call.settled();
  return call;
}

/** A reply that allows `groups` groups of one take each, paid at that time. */
const allowing = (groups: number, paidAtUs = 77) =>
  new ReplyReader([clock.nowUs(), 0, ...Array.from({ length: groups }, () => [1, 5, 6, 0, 9, paidAtUs, 0]).flat()]);

async function passMs(ms: number): Promise<void> {
  clock.advanceMs(ms);
  await vi.advanceTimersByTimeAsync(ms);
  // Deadlines are acted on after the sockets were read, in a setImmediate of their own.
  await vi.advanceTimersByTimeAsync(1);
}

beforeEach(() => {
  vi.useFakeTimers();
  isUp = true;
  turns = 0;
  silent.length = 0;
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
    expect(intake.takeReady().map((batch) => batch.takes)).toEqual([3, 1]);
    expect(intake.takeReady()).toEqual([]);
  });

  test("travel in a batch of their queue each", () => {
    const intake = open();
    for (const [key, queue] of [["a", 7] as const, ["b", 9] as const, ["c", 7] as const]) take(intake, key, queue);
    expect(intake.takeReady().map(({ queue, takes }) => ({ queue, takes }))).toEqual([
      { queue: 7, takes: 2 },
      { queue: 9, takes: 1 },
    ]);
  });

  test("wait for a free connection one batch after the other, and the last one fills up", () => {
    const intake = open();
    for (const key of ["a", "b", "c", "d"]) take(intake, key);
    expect(intake.next()?.takes).toBe(3);
    take(intake, "e");
    expect(intake.next()?.takes).toBe(2);
    expect(intake.next()).toBeUndefined();
  });
});

describe("a server that is asked already", () => {
  /** Sends all that may go, as a store would. */
  function send(intake: Intake<SmallBatch>): SmallBatch[] {
    return intake.takeReady().filter((batch) => intake.settler.begin(batch));
  }
  function busy(queue = 0): { intake: Intake<SmallBatch>; underWay: SmallBatch[] } {
    const intake = open();
    const underWay = ["a", "b"].flatMap((key) => {
      take(intake, key, queue);
      return send(intake);
    });
    expect(underWay.map(({ takes }) => takes)).toEqual([1, 1]);
    return { intake, underWay };
  }

  test("twice gets what comes meanwhile in one call, as soon as it has answered one", async () => {
    const { intake, underWay } = busy();
    for (const key of ["c", "d"]) {
      take(intake, key);
      expect(send(intake)).toEqual([]);
    }
    await vi.advanceTimersByTimeAsync(0);
    turns = 0;
    intake.settler.settle(underWay[0] as SmallBatch, allowing(1));
    await vi.advanceTimersByTimeAsync(0);
    expect(turns).toBe(1);
    expect(send(intake).map(({ takes }) => takes)).toEqual([2]);
  });

  test("gets a call that is full at once: waiting would add nothing to it", () => {
    const { intake } = busy();
    for (const key of ["c", "d", "e", "f"]) take(intake, key);
    expect(send(intake).map(({ takes }) => takes)).toEqual([3]);
  });

  test("gets takes of another queue at once", () => {
    const { intake } = busy(7);
    take(intake, "c", 7);
    take(intake, "d", 8);
    expect(send(intake).map(({ queue }) => queue)).toEqual([8]);
  });

  test.each([
    ["fails", (intake: Intake<SmallBatch>, batch: SmallBatch) => intake.settler.fail(batch, lost)],
    ["loses", (intake: Intake<SmallBatch>, batch: SmallBatch) => intake.settler.lose(batch, lost)],
    ["gives away", (intake: Intake<SmallBatch>, batch: SmallBatch) => intake.settler.release(batch)],
  ])("and %s one has room again", (_what, end) => {
    const { intake, underWay } = busy();
    take(intake, "c");
    end(intake, underWay[0] as SmallBatch);
    expect(send(intake)).toHaveLength(1);
  });

  test("and lets the calls of one wait in vain has room again", async () => {
    const { intake, underWay } = busy();
    const patient = new Call("c");
    patient.group.deadlineUs = clock.nowUs() + 80_000;
    intake.take(patient.group, patient);
    expect(send(intake)).toEqual([]);
    await vi.advanceTimersByTimeAsync(0);
    turns = 0;
    // The calls under way have no deadline of their own: they wait for as long as patience lasts.
    const late = new Call("d");
    await passMs(60);
    late.group.deadlineUs = clock.nowUs() + 80_000;
    intake.take(late.group, late);
    await passMs(41);
    expect(turns).toBeGreaterThan(0);
    expect(send(intake).map(({ waiting }) => waiting)).toEqual([1]);
    // Their answers come late, and leave no more room than they took.
    for (const batch of underWay) intake.settler.settle(batch, allowing(1));
    expect(intake.settler.underWay(0)).toBe(1);
  });

  test("a second time for the same call keeps one place for it", () => {
    const { intake, underWay } = busy();
    const [first] = underWay as [SmallBatch];
    intake.settler.begin(first);
    intake.settler.settle(first, allowing(1));
    expect(intake.settler.underWay(0)).toBe(1);
  });

  // Promise(outages): A take held back for batching is answered within its deadline.
  test("holds nobody beyond their deadline", async () => {
    const { intake } = busy();
    const call = take(intake, "c");
    expect(send(intake)).toEqual([]);
    await passMs(100);
    expect([call.answers, call.code]).toEqual([1, "STORE_TIMEOUT"]);
    expect(send(intake)).toEqual([]);
  });
});

describe("a group is answered once", () => {
  test("by the reply", () => {
    const intake = open();
    const call = take(intake, "a");
    const [batch] = intake.takeReady();
    if (batch === undefined) throw new Error("nothing gathered");
    expect(intake.settler.begin(batch)).toBe(true);
    intake.settler.settle(batch, allowing(1));
    intake.settler.lose(batch, lost);
    expect(call.group.takes[0]).toMatchObject({ outcome: 1, paid: true, remaining: 6, resetUs: 9, paidAtUs: 77 });
    expect([call.answers, call.group.verdict]).toEqual([1, Verdict.allowed]);
    expect(intake.settler.takes).toBe(0);
  });

  test("by its deadline, and what was paid all the same is given back", async () => {
    const undone: string[] = [];
    const intake = open({ onUndone: ({ bucketKey }) => undone.push(bucketKey) });
    const hasty = take(intake, "a");
    const patient = take(intake, "b");
    intake.settler.setDeadlines(intake.next() ?? new SmallBatch());
    expect(hasty.answers + patient.answers).toBe(0);

    const call = new Call("c");
    call.group.deadlineUs = clock.nowUs() + 20_000;
    intake.take(call.group, call);
    const [batch] = intake.takeReady();
    if (batch === undefined) throw new Error("nothing gathered");
    intake.settler.begin(batch);
    await passMs(14);
    expect(call.answers).toBe(0);
    await passMs(1);
    expect([call.answers, call.code]).toEqual([1, "STORE_TIMEOUT?"]);
    // Those that have no deadline of their own wait for as long as patience lasts.
    expect(patient.answers).toBe(0);
    await passMs(85);
    expect([hasty.answers, patient.code]).toEqual([1, "STORE_TIMEOUT"]);

    intake.settler.settle(batch, allowing(1));
    expect(call.answers).toBe(1);
    expect(intake.next()?.receipts).toMatchObject([{ bucketKey: "c", limit, cost: 1, paidAtUs: 77 }]);
    expect(undone).toEqual(["c"]);
  });

  test("at once if its own deadline passed before it could be sent", () => {
    const intake = open();
    const call = new Call("a");
    call.group.deadlineUs = clock.nowUs() + 5_000;
    intake.take(call.group, call);
    clock.advanceMs(6);
    const [batch] = intake.takeReady();
    if (batch === undefined) throw new Error("nothing gathered");
    expect(intake.settler.begin(batch)).toBe(false);
    expect([call.answers, call.code]).toEqual([1, "STORE_TOO_LATE"]);
  });

  test("in its time although its batch still waits for a connection", async () => {
    const intake = open({ patienceMs: 15 });
    const call = take(intake, "a");
    intake.setDeadlines();
    await passMs(15);
    expect([call.answers, call.code]).toEqual([1, "STORE_TIMEOUT"]);
    expect(intake.next()).toBeUndefined();
    expect(intake.settler.takes).toBe(0);
  });

  test("when the connection is lost, if it was sent", () => {
    const intake = open();
    const sent = take(intake, "a");
    const [batch] = intake.takeReady();
    if (batch === undefined) throw new Error("nothing gathered");
    intake.settler.begin(batch);
    const waiting = take(intake, "b");
    intake.settler.loseSent(lost);
    expect([sent.code, waiting.answers]).toEqual(["STORE_UNREACHABLE?", 0]);
    intake.failGathered();
    expect(waiting.code).toBe("STORE_UNREACHABLE");
  });

  test("by another server's settler, in its time, if its own hands the batch over", async () => {
    const here = open();
    const there = open();
    const answered = take(here, "a");
    const late = take(here, "b");
    const [batch] = here.takeReady();
    if (batch === undefined) throw new Error("nothing gathered");
    here.settler.begin(batch);
    await passMs(60);
    here.settler.release(batch);
    expect(here.settler.takes).toBe(0);
    there.settler.adopt(batch);
    expect(there.settler.begin(batch)).toBe(true);
    expect(there.settler.takes).toBe(2);
    await passMs(39);
    expect(answered.answers + late.answers).toBe(0);
    await passMs(1);
    expect([answered.code, late.code]).toEqual(["STORE_TIMEOUT?", "STORE_TIMEOUT?"]);
    there.settler.settle(batch, allowing(2));
    expect(there.next()?.receipts.map(({ bucketKey }) => bucketKey)).toEqual(["a", "b"]);
    expect(here.next()).toBeUndefined();
  });
});

describe("a server that hands its keys over", () => {
  const breaker = { windowUs: 1_000_000, outcomesMin: 5, failureShare: 0.5, pauseUs: 250_000 };

  /** Calls of as many queues, sent; the server says nothing until their deadlines have passed. */
  async function sendUnanswered(intake: Intake<SmallBatch>, calls: number): Promise<SmallBatch[]> {
    for (let queue = 0; queue < calls; queue++) take(intake, `k${queue}`, queue);
    const batches = intake.takeReady().filter((batch) => intake.settler.begin(batch));
    await passMs(100);
    return batches;
  }

  // Promise(redis): Calls that can wait are answered while a Cluster primary hands over, and its silence counts no failure.
  test.each([{ calls: 1 }, { calls: 4 }, { calls: 5 }, { calls: 100 }])(
    "and was silent for $calls calls until then is believed again, and the next one is not blamed",
    async ({ calls }) => {
      const states: string[] = [];
      const observer = { ...SILENT_STORE_OBSERVER, breakerChanged: (state: string) => void states.push(state) };
      const from = open({ breaker });
      const to = open({ breaker, observer });
      const batches = await sendUnanswered(from, calls);
      expect(take(from, "other").answers).toBe(calls >= breaker.outcomesMin ? 1 : 0);
      for (const batch of batches) {
        from.settler.release(batch);
        to.settler.adopt(batch);
        expect(to.settler.begin(batch)).toBe(false);
      }
      expect(states).toEqual([]);
      expect([take(from, "a").answers, take(to, "b").answers]).toEqual([0, 0]);
    },
  );

  test("gets no blame there either for calls whose time was over while they were sent on", async () => {
    const states: string[] = [];
    const observer = { ...SILENT_STORE_OBSERVER, breakerChanged: (state: string) => void states.push(state) };
    const from = open({ breaker });
    const to = open({ breaker, observer });
    for (let queue = 0; queue < 50; queue++) take(from, `k${queue}`, queue);
    const batches = from.takeReady().filter((batch) => from.settler.begin(batch));
    await passMs(90);
    for (const batch of batches) {
      from.settler.release(batch);
      to.settler.adopt(batch);
      to.settler.begin(batch);
    }
    await passMs(10);
    expect(states).toEqual([]);
    expect(take(to, "b").answers).toBe(0);
  });
});

describe("a take fails at once", () => {
  test("while the server is away", () => {
    isUp = false;
    const call = take(open(), "a");
    expect([call.answers, call.code, call.group.failure?.message]).toEqual([
      1,
      "STORE_UNREACHABLE",
      "The server is away",
    ]);
  });

  test("beyond the takes that may be under way, those that wait included", () => {
    const intake = open({ takesInFlightMax: 2 });
    take(intake, "a");
    const [batch] = intake.takeReady();
    if (batch === undefined) throw new Error("nothing gathered");
    intake.settler.begin(batch);
    expect(take(intake, "b").answers).toBe(0);
    expect(take(intake, "c").code).toBe("STORE_QUEUE_FULL");
    intake.settler.settle(batch, allowing(1));
    expect(take(intake, "c").answers).toBe(0);
  });

  test("while the breaker is open; one batch goes out as a probe", () => {
    const breaker = { windowUs: 1_000_000, outcomesMin: 1, failureShare: 0.5, pauseUs: 250_000 };
    const intake = open({ breaker });
    take(intake, "a");
    const [batch] = intake.takeReady();
    if (batch === undefined) throw new Error("nothing gathered");
    intake.settler.fail(batch, lost);
    expect(take(intake, "b").code).toBe("STORE_BREAKER_OPEN");
    expect(intake.trouble()).toContain("is given a pause");
    clock.advanceMs(250);
    const probing = ["a", "b", "c"].map((key) => take(intake, key));
    expect(take(intake, "d").code).toBe("STORE_BREAKER_OPEN");
    expect(take(intake, "other queue", 5).code).toBe("STORE_BREAKER_OPEN");
    const [probe] = intake.takeReady();
    if (probe === undefined) throw new Error("nothing gathered");
    intake.settler.begin(probe);
    intake.settler.settle(probe, allowing(3));
    expect(probing.map(({ answers }) => answers)).toEqual([1, 1, 1]);
    expect(intake.trouble()).toBeUndefined();
  });

  test("while the breaker is open; a take of its own is the probe if nobody takes", async () => {
    const intake = open({ breaker: { windowUs: 1_000_000, outcomesMin: 1, failureShare: 0.5, pauseUs: 250_000 } });
    take(intake, "a");
    intake.settler.fail(intake.takeReady()[0] as SmallBatch, lost);
    for (const end of ["fail", "settle"] as const) {
      await passMs(249);
      expect(intake.takeReady()).toEqual([]);
      await passMs(5);
      const [probe] = intake.takeReady() as [SmallBatch];
      expect([probe.queue, probe.takes, probe.isProbe]).toEqual([3, 1, true]);
      intake.settler.begin(probe);
      if (end === "fail") intake.settler.fail(probe, lost);
      else intake.settler.settle(probe, allowing(1));
    }
    expect(intake.trouble()).toBeUndefined();
    await passMs(1_000);
    expect(intake.takeReady()).toEqual([]);
  });

  test("once the intake is closed", async () => {
    const intake = open();
    const isClosed = intake.close();
    expect(take(intake, "a").code).toBe("STORE_CLOSED");
    await isClosed;
  });
});

describe("a server that owes an answer for too long is given up", () => {
  test("once for each call that has none", async () => {
    const intake = open({ silenceMsMax: 5_000 });
    take(intake, "a");
    const [first] = intake.takeReady();
    take(intake, "b");
    const [second] = intake.takeReady();
    if (first === undefined || second === undefined) throw new Error("nothing gathered");
    intake.settler.begin(first);
    await passMs(4_950);
    intake.settler.begin(second);
    expect(silent).toEqual([]);
    await passMs(100);
    expect(silent).toEqual(["has not answered for 5 seconds"]);
    await passMs(5_000);
    expect(silent).toHaveLength(2);
  });

  test("if it owes it to nobody but those who want to give back", async () => {
    const intake = open({ silenceMsMax: 5_000 });
    const { group } = new Call("a");
    Object.assign(group.takes[0] ?? {}, { paid: true, paidAtUs: 5 });
    intake.giveBack(group);
    const [batch] = intake.takeReady();
    if (batch === undefined) throw new Error("nothing gathered");
    expect(intake.settler.begin(batch)).toBe(true);
    await passMs(4_999);
    expect(silent).toEqual([]);
    await passMs(2);
    expect(silent).toHaveLength(1);
  });

  test.each([{ deadlineMs: 15_000 }, { patienceMs: 15_000 }])(
    "but not before $deadlineMs$patienceMs ms, in which calls wait for it",
    async (waits) => {
      const intake = open({ silenceMsMax: 5_000, ...waits });
      const call = take(intake, "a");
      const [batch] = intake.takeReady() as [SmallBatch];
      intake.settler.begin(batch);
      await passMs(14_900);
      expect(silent).toEqual([]);
      intake.settler.settle(batch, allowing(1));
      expect(call.group.verdict).toBe(Verdict.allowed);
    },
  );

  test("but not if it answers in time", async () => {
    const intake = open({ silenceMsMax: 5_000 });
    take(intake, "a");
    const [batch] = intake.takeReady();
    if (batch === undefined) throw new Error("nothing gathered");
    intake.settler.begin(batch);
    await passMs(4_999);
    intake.settler.settle(batch, allowing(1));
    await passMs(20_000);
    expect(silent).toEqual([]);
  });
});

/** Has `count` payments of a queue given back. */
function giveBack(intake: Intake<SmallBatch>, count: number, queue = 0): void {
  for (let i = 0; i < count; i++) {
    const { group } = new Call(`k${i}`);
    Object.assign(group.takes[0] ?? {}, { paid: true, paidAtUs: 5 });
    intake.giveBack(group, queue);
  }
}

describe("what is to be given back", () => {
  const sizes = (batches: readonly SmallBatch[]) => batches.map(({ receipts }) => receipts.length);

  test("waits until the server is up, and then travels in eight calls at a time", async () => {
    const intake = open();
    isUp = false;
    giveBack(intake, 600);
    await vi.advanceTimersByTimeAsync(0);
    expect(turns).toBe(0);
    isUp = true;
    intake.onUp();
    await vi.advanceTimersByTimeAsync(0);
    const first = intake.takeReady();
    expect(sizes(first)).toEqual([64, 64, 64, 64, 64, 64, 64, 64]);
    for (const batch of first) intake.settler.begin(batch);
    await vi.advanceTimersByTimeAsync(20);
    expect([turns, intake.takeReady()]).toEqual([1, []]);
    intake.settler.settle(first[3] as SmallBatch, allowing(0));
    await vi.advanceTimersByTimeAsync(0);
    expect(turns).toBe(2);
    expect(sizes(intake.takeReady())).toEqual([64]);
    expect(intake.takeReady()).toEqual([]);
  });

  // Promise(outages): Takes and give-backs don't wait for each other.
  test("leaves room for takes, which carry more of it", () => {
    const intake = open();
    giveBack(intake, 600);
    for (const batch of intake.takeReady()) intake.settler.begin(batch);
    take(intake, "a");
    const batches = intake.takeReady();
    expect(batches.map(({ takes, receipts }) => [takes, receipts.length])).toEqual([[1, 64]]);
  });

  test.each([
    { what: "another server's", isAdopted: true },
    // As after TRYAGAIN: what it had goes on in queues of single buckets.
    { what: "nobody's any more", isAdopted: false },
  ])("goes on while calls of it are $what", ({ isAdopted }) => {
    const intake = open();
    giveBack(intake, 600);
    for (const batch of intake.takeReady()) {
      intake.settler.begin(batch);
      intake.settler.release(batch);
      if (isAdopted) open().settler.adopt(batch);
    }
    expect(sizes(intake.takeReady())).toEqual([64, 24]);
  });

  test("of one call over several queues leaves at once", () => {
    const intake = open();
    for (let queue = 0; queue < 6; queue++) giveBack(intake, 1, queue);
    expect(intake.takeReady().map(({ queue }) => queue)).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test("takes turns with takes over a single connection", () => {
    const intake = open();
    giveBack(intake, 9_000);
    const kinds = Array.from({ length: 6 }, (_, i) => {
      // Calls of queue 1 carry nothing of queue 0.
      take(intake, `k${i}`, 1);
      const batch = intake.next() ?? new SmallBatch();
      intake.settler.begin(batch);
      intake.settler.settle(batch, allowing(batch.groups.length));
      return [batch.takes, batch.receipts.length];
    });
    expect(kinds).toEqual([
      [0, 64],
      [2, 0],
      [0, 64],
      [2, 0],
      [0, 64],
      [2, 0],
    ]);
  });

  test("uses one connection of several", () => {
    const intake = open();
    giveBack(intake, 9_000);
    take(intake, "a", 1);
    const batches = [intake.next(), intake.next(), intake.next(), intake.next()];
    expect(batches.map((batch) => batch?.takes)).toEqual([0, 1, undefined, undefined]);
  });
});
