// The mirror with targets in a test's hands: what callers wait for, what is given up, what is bounded.

import { afterEach, describe, expect, test, vi } from "vitest";
import { MICROS_PER_MILLI } from "../../../../src/base/units.ts";
import { GrpcStatus, type UnaryReply } from "../../../../src/grpc/unary.ts";
import { Differences } from "../../../../src/tools/mirror/differences.ts";
import { Mirror, type MirrorOptions } from "../../../../src/tools/mirror/mirror.ts";
import type {
  Admits,
  FailureReason,
  Target,
  TargetOutcome,
  TargetRequest,
} from "../../../../src/tools/mirror/target.ts";
import { endWithTest } from "../../../support/ends.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { answerBytes, requestBytes, STRICT } from "../../../support/mirror-rig.ts";

interface Sent {
  readonly request: TargetRequest;
  readonly admits: Admits;
  readonly done: (outcome: TargetOutcome) => void;
  cancelled: FailureReason | undefined;
}

class ScriptedTarget implements Target {
  readonly sent: Sent[] = [];

  send(request: TargetRequest, admits: Admits, done: (outcome: TargetOutcome) => void) {
    const sent: Sent = { request, admits, done, cancelled: undefined };
    this.sent.push(sent);
    return {
      cancel: (reason: FailureReason, message = "") => {
        if (sent.cancelled !== undefined) return;
        sent.cancelled = reason;
        done({ kind: "failure", reason, message });
      },
    };
  }
}

function makeRig(options: Partial<MirrorOptions> = {}) {
  const clock = new ManualClock();
  const answering = new ScriptedTarget();
  const compared = new ScriptedTarget();
  const book = new Differences("hide");
  const faults: unknown[] = [];
  const mirror = new Mirror({
    answering,
    compared,
    ...STRICT,
    book,
    clock,
    comparisonsMax: 10,
    memoryMax: 100_000,
    callMsMax: 30_000,
    compareTimeout: 1_000,
    onFault: (error) => faults.push(error),
    ...options,
  });
  const answers: (Buffer | [GrpcStatus, string])[] = [];
  const replies: UnaryReply[] = [];
  const call = (message = requestBytes({ user: "a" }), deadlineMs = Number.POSITIVE_INFINITY) => {
    const reply: UnaryReply = {
      traceparent: "00-1-2-01",
      ok: (answer) => answers.push(Buffer.from(answer)),
      fail: (...error) => answers.push(error),
    };
    replies.push(reply);
    mirror.handle(message, clock.nowUs() + deadlineMs * MICROS_PER_MILLI, reply);
  };
  const leave = (i: number) => replies[i]?.onGone?.();
  // Calls that nobody has answered would wait for their deadline.
  endWithTest(() => {
    for (const reply of replies) reply.onGone?.();
  });
  return { answering, compared, book, mirror, answers, leave, call, faults };
}

function ok(answer: object = { overall_code: "OK" }): TargetOutcome {
  return { kind: "answer", code: 0, details: "", message: answerBytes(answer) };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

afterEach(() => {
  vi.useRealTimers();
});

describe("a mirror", () => {
  // Promise(mirror): Answers on their way to callers take bounded memory, whatever the answering service sends.
  test("holds at most so many bytes of calls until they are answered", () => {
    const message = requestBytes({ user: "a" });
    const { answering, answers, leave, call } = makeRig({
      compared: undefined,
      memoryMax: 4 * (message.length + 256) + 100,
    });
    for (let i = 0; i < 4; i++) call(message);
    const admits = (i: number, bytes: number) => answering.sent[i]?.admits(bytes);
    expect([admits(0, 50), admits(1, 50), admits(1, 1)]).toEqual([true, true, false]);
    call(message);
    expect(answers).toEqual([
      [GrpcStatus.resourceExhausted, expect.stringContaining("calls under way hold more than")],
    ]);
    answering.sent[0]?.done(ok());
    expect([admits(2, message.length + 306), admits(3, 1)]).toEqual([true, false]);
    // So is what has come for a caller that leaves.
    leave(1);
    leave(1);
    expect([answering.sent[1]?.cancelled, admits(3, 50)]).toEqual(["cancelled", true]);
  });

  // Promise(mirror): The mirror holds no call past its deadline, or 30 s without one.
  test.each([
    { deadlineMs: 100, endsMs: 100 },
    { deadlineMs: Number.POSITIVE_INFINITY, endsMs: 30_000 },
    { deadlineMs: 90_000, endsMs: 30_000 },
  ])("ends a call with a deadline of $deadlineMs ms after $endsMs ms, for its caller and for targets", async (row) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { answering, compared, answers, call } = makeRig({ compareTimeout: 60_000 });
    call(requestBytes({ user: "a" }), row.deadlineMs);
    await turn();
    expect(answering.sent[0]?.request).toMatchObject({ timeoutMs: row.endsMs, traceparent: "00-1-2-01" });
    vi.advanceTimersByTime(row.endsMs - 1);
    expect(answers).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(answers).toEqual([[GrpcStatus.deadlineExceeded, `no answer within ${row.endsMs} ms`]]);
    expect([answering.sent[0]?.cancelled, compared.sent[0]?.cancelled]).toEqual(["cancelled", "cancelled"]);
  });

  test("answers as soon as the answering target has, before the other is even asked", async () => {
    const { answering, compared, answers, call } = makeRig();
    call();
    answering.sent[0]?.done(ok());
    expect(answers).toEqual([answerBytes({ overall_code: "OK" })]);
    expect(compared.sent).toHaveLength(0);
    await turn();
    expect(compared.sent[0]?.request).toBe(answering.sent[0]?.request);
  });

  test("compares in either order of answers", async () => {
    const { answering, compared, book, call } = makeRig();
    call();
    call();
    await turn();
    const other = ok({ overall_code: "OVER_LIMIT" });
    answering.sent[0]?.done(ok());
    compared.sent[0]?.done(other);
    compared.sent[1]?.done(other);
    answering.sent[1]?.done(ok());
    await turn();
    expect([book.same, book.different]).toEqual([0, 2]);
  });

  test("gives up on a compared target that takes too long, and holds nothing of the call any more", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { answering, compared, mirror, call } = makeRig();
    call();
    await turn();
    answering.sent[0]?.done(ok());
    vi.advanceTimersByTime(999);
    expect(mirror.notCompared.get("compared_too_slow")).toBeUndefined();
    vi.advanceTimersByTime(1);
    expect(mirror.notCompared.get("compared_too_slow")).toBe(1);
    expect(compared.sent[0]?.cancelled).toBe("too_slow");
    expect([mirror.comparisons, mirror.heldBytes]).toEqual([0, 0]);
  });

  test("asks the compared target nothing while too many calls are under comparison", async () => {
    const { answering, compared, mirror, call } = makeRig({ comparisonsMax: 2 });
    for (let i = 0; i < 5; i++) call();
    await turn();
    expect([answering.sent.length, compared.sent.length, mirror.notCompared.get("busy")]).toEqual([5, 2, 3]);
  });

  test("keeps no more bytes than it may, of requests and of both answers", async () => {
    const message = requestBytes({ user: "a" });
    const { answering, compared, mirror, call } = makeRig({ memoryMax: message.length + 300 });
    call(message);
    await turn();
    expect(compared.sent[0]?.admits(301)).toBe(false);
    expect(compared.sent[0]?.admits(290)).toBe(true);
    expect(mirror.heldBytes).toBe(message.length + 290);
    answering.sent[0]?.done(ok({ overall_code: "OK", raw_body: Buffer.alloc(50) }));
    expect([mirror.notCompared.get("busy"), mirror.heldBytes]).toEqual([1, 0]);
  });

  test("lets go of both targets when the caller leaves", async () => {
    const { answering, compared, mirror, leave, call } = makeRig();
    call();
    await turn();
    leave(0);
    expect([answering.sent[0]?.cancelled, compared.sent[0]?.cancelled]).toEqual(["cancelled", "cancelled"]);
    expect([mirror.notCompared.get("answering_cancelled"), mirror.comparisons]).toEqual([1, 0]);
  });

  test.each<FailureReason>(["unreachable", "broken", "too_large"])(
    "counts a compared target that is %s",
    async (reason) => {
      const { compared, mirror, call } = makeRig();
      call();
      await turn();
      compared.sent[0]?.done({ kind: "failure", reason, message: "" });
      expect([...mirror.notCompared]).toEqual([[`compared_${reason}`, 1]]);
      expect(mirror.comparisons).toBe(0);
    },
  );

  test("counts invalid answers, and reports no fault of its own", async () => {
    const { answering, compared, mirror, faults, call } = makeRig();
    call();
    await turn();
    answering.sent[0]?.done(ok());
    compared.sent[0]?.done({ kind: "answer", code: 0, details: "", message: Buffer.from("<html>") });
    await turn();
    expect([mirror.notCompared.get("unreadable"), faults]).toEqual([1, []]);
  });

  test("ends with what is under comparison counted", async () => {
    const { mirror, compared, call } = makeRig();
    call();
    await turn();
    await mirror.finish(0);
    expect([mirror.notCompared.get("ended"), compared.sent[0]?.cancelled]).toEqual([1, "cancelled"]);
  });
});
