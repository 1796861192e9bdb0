// The mirror with targets in a test's hands: what callers wait for, what is given up, what is bounded.

import { afterEach, describe, expect, test, vi } from "vitest";
import { ByteBudget } from "../../../src/grpc/transport/relay/byte-budget.ts";
import type {
  FailureReason,
  SendOptions,
  UnaryOutcome,
  UnaryTarget,
} from "../../../src/grpc/transport/relay/unary-exchange.ts";
import { framed } from "../../../src/tools/mirror/answer.ts";
import { Differences, ValueGuard } from "../../../src/tools/mirror/differences.ts";
import { Mirror, type MirrorOptions } from "../../../src/tools/mirror/mirror.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { answerBytes, requestBytes, STRICT } from "../../support/mirror-rig.ts";

interface Sent {
  readonly request: object;
  readonly options: SendOptions;
  readonly done: (outcome: UnaryOutcome) => void;
  cancelled: FailureReason | undefined;
}

class ScriptedTarget implements UnaryTarget {
  readonly sent: Sent[] = [];

  send(request: object, options: SendOptions, done: (outcome: UnaryOutcome) => void) {
    const sent: Sent = { request, options, done, cancelled: undefined };
    this.sent.push(sent);
    return {
      cancel: (reason: FailureReason) => {
        if (sent.cancelled !== undefined) return;
        sent.cancelled = reason;
        done({ kind: "failure", reason, message: "" });
      },
    };
  }
}

function makeRig(options: Partial<MirrorOptions> = {}) {
  const clock = new ManualClock();
  const answering = new ScriptedTarget();
  const compared = new ScriptedTarget();
  const book = new Differences(new ValueGuard("hide"));
  const faults: unknown[] = [];
  const mirror = new Mirror({
    answering,
    compared,
    ...STRICT,
    book,
    clock,
    comparisonsMax: 10,
    memoryMax: 100_000,
    memory: new ByteBudget(100_000),
    compareTimeout: 1_000,
    onFault: (error) => faults.push(error),
    ...options,
  });
  const answers: UnaryOutcome[] = [];
  const gone: (() => void)[] = [];
  const call = (message = requestBytes({ user: "a" })) =>
    mirror.handle({
      request: { headers: {}, body: framed(message) },
      answer: (outcome) => answers.push(outcome),
      onEnded: (leave) => gone.push(leave),
    });
  return { answering, compared, book, mirror, answers, gone, call, faults };
}

function ok(answer: object = { overall_code: "OK" }): UnaryOutcome {
  return { kind: "answer", headers: {}, body: framed(answerBytes(answer)), trailers: { "grpc-status": "0" } };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

afterEach(() => {
  vi.useRealTimers();
});

describe("a mirror", () => {
  // Promise(mirror): Answers on their way to callers take bounded memory, whatever the answering service sends.
  test("holds at most so many bytes of answers that are not complete, or that callers have not read", () => {
    const { answering, answers, gone, call } = makeRig({ compared: undefined });
    for (let i = 0; i < 4; i++) call();
    const admits = (i: number, bytes: number) => answering.sent[i]?.options.admits?.(bytes);
    expect([admits(0, 50_000), admits(1, 30_000), admits(1, 20_000), admits(2, 1)]).toEqual([true, true, true, false]);
    // An answer counts until its caller has it.
    answering.sent[0]?.done(ok());
    expect([answers.length, admits(2, 1)]).toEqual([1, false]);
    gone[0]?.();
    expect([admits(2, 50_000), admits(3, 1)]).toEqual([true, false]);
    // So does what has come for a caller that leaves.
    gone[1]?.();
    gone[1]?.();
    expect([answering.sent[1]?.cancelled, admits(3, 50_000), admits(3, 1)]).toEqual(["cancelled", true, false]);
  });

  test("answers as soon as the answering target has, before the other is even asked", async () => {
    const { answering, compared, answers, call } = makeRig();
    call();
    const answer = ok();
    answering.sent[0]?.done(answer);
    expect(answers).toEqual([answer]);
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
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const { answering, compared, mirror, call } = makeRig();
    call();
    await turn();
    answering.sent[0]?.done(ok());
    vi.advanceTimersByTime(999);
    expect(mirror.notCompared.compared_too_slow).toBe(0);
    vi.advanceTimersByTime(1);
    expect(mirror.notCompared.compared_too_slow).toBe(1);
    expect(compared.sent[0]?.cancelled).toBe("too_slow");
    expect([mirror.comparisons, mirror.heldBytes]).toEqual([0, 0]);
  });

  test("asks the compared target nothing while too many calls are under comparison", async () => {
    const { answering, compared, mirror, call } = makeRig({ comparisonsMax: 2 });
    for (let i = 0; i < 5; i++) call();
    await turn();
    expect([answering.sent.length, compared.sent.length, mirror.notCompared.busy]).toEqual([5, 2, 3]);
  });

  test("keeps no more bytes than it may, of requests and of both answers", async () => {
    const message = requestBytes({ user: "a" });
    const { answering, compared, mirror, call } = makeRig({ memoryMax: message.length + 5 + 100 });
    call(message);
    await turn();
    expect(compared.sent[0]?.options.admits?.(101)).toBe(false);
    expect(compared.sent[0]?.options.admits?.(90)).toBe(true);
    expect(mirror.heldBytes).toBe(message.length + 5 + 90);
    answering.sent[0]?.done(ok({ overall_code: "OK", raw_body: Buffer.alloc(50) }));
    expect([mirror.notCompared.busy, mirror.heldBytes]).toEqual([1, 0]);
  });

  test("lets go of both targets when the caller leaves", async () => {
    const { answering, compared, mirror, gone, call } = makeRig();
    call();
    await turn();
    gone[0]?.();
    expect([answering.sent[0]?.cancelled, compared.sent[0]?.cancelled]).toEqual(["cancelled", "cancelled"]);
    expect([mirror.notCompared.caller_gone, mirror.comparisons]).toEqual([1, 0]);
  });

  test.each<{ reason: FailureReason; counted: string }>([
    { reason: "unreachable", counted: "compared_unreachable" },
    { reason: "refused", counted: "compared_unreachable" },
    { reason: "broken", counted: "compared_broken" },
    { reason: "too_large", counted: "too_large" },
  ])("counts a compared target that is $reason as $counted", async ({ reason, counted }) => {
    const { compared, mirror, call } = makeRig();
    call();
    await turn();
    compared.sent[0]?.done({ kind: "failure", reason, message: "" });
    expect(mirror.notCompared).toMatchObject({ [counted]: 1 });
    expect(mirror.comparisons).toBe(0);
  });

  test("counts answers that are none, and no fault of its own", async () => {
    const { answering, compared, mirror, faults, call } = makeRig();
    call();
    await turn();
    answering.sent[0]?.done(ok());
    compared.sent[0]?.done({
      kind: "answer",
      headers: { ":status": "503" },
      body: Buffer.from("<html>"),
      trailers: undefined,
    });
    await turn();
    expect([mirror.notCompared.unreadable, faults]).toEqual([1, []]);
  });

  test("ends with what is under comparison counted", async () => {
    const { mirror, compared, call } = makeRig();
    call();
    await turn();
    await mirror.finish(0);
    expect([mirror.notCompared.ended, compared.sent[0]?.cancelled]).toEqual([1, "cancelled"]);
  });
});
