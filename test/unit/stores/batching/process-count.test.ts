// Counting the processes that share a store: when it begins, when it is asked for, what it outlives. Timers move by hand.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Clock } from "../../../../src/base/clock.ts";
import { GONE_AFTER_US, Membership, ProcessCount } from "../../../../src/stores/batching/process-count.ts";
import type { ProcessRegister, RegisteredProcess } from "../../../../src/stores/process-register.ts";

/** A register in memory, that may be silent. */
class Register implements Pick<ProcessRegister, "beat" | "leave"> {
  readonly seenMs = new Map<string, number>();
  reports = 0;
  isSilent = false;

  async beat(own: RegisteredProcess | undefined) {
    const id = own?.id ?? "";
    this.reports++;
    const isNew = !this.seenMs.has(id);
    this.seenMs.set(id, Date.now());
    for (const [each, ms] of this.seenMs) if (ms < Date.now() - GONE_AFTER_US / 1_000) this.seenMs.delete(each);
    const all = [...this.seenMs.keys()].map((id) => ({ id, name: "", epoch: "", version: 0, calls: [] }));
    // One that keeps limits at run time is counted by its threads.
    return { all: [...all, { id: "limits", name: "host", epoch: "e", version: 1, calls: [0] }], isNew };
  }

  async leave(id: string) {
    if (this.isSilent) await new Promise(() => undefined);
    this.seenMs.delete(id);
  }
}

const timers: Clock = { nowUs: () => Date.now() * 1_000 };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("a count of processes", () => {
  test("reports nothing before the first question, and knows the answer a moment later", async () => {
    const register = new Register();
    const processes = new ProcessCount(register, timers);
    await processes.beat();
    expect(register.reports).toBe(0);
    expect(processes.count()).toBe(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(register.reports).toBe(1);
    register.seenMs.set("another", Date.now());
    await vi.advanceTimersByTimeAsync(300);
    expect(processes.count()).toBe(2);
  });

  test("hands out in advance once all others have counted it", async () => {
    const register = new Register();
    const both = [new ProcessCount(register, timers), new ProcessCount(register, timers)];
    for (const each of both) each.count();
    await vi.advanceTimersByTimeAsync(2_700);
    expect(both.map((each) => each.sureCount())).toEqual([Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]);
    await vi.advanceTimersByTimeAsync(300);
    expect(both.map((each) => each.sureCount())).toEqual([2, 2]);
  });

  test("takes a process as gone when ten seconds have passed without it, and its silence before that", async () => {
    const register = new Register();
    const processes = new ProcessCount(register, timers);
    register.seenMs.set("silent", Date.now());
    processes.count();
    await vi.advanceTimersByTimeAsync(19_000);
    expect(processes.count()).toBe(2);
    await vi.advanceTimersByTimeAsync(3_000);
    expect(processes.count()).toBe(1);
  });

  // Promise(hot): The count of processes does not fall because its data vanishes.
  test("does not fall while the register loses its data again and again", async () => {
    const register = new Register();
    const three = Array.from({ length: 3 }, () => new ProcessCount(register, timers));
    for (const each of three) each.count();
    await vi.advanceTimersByTimeAsync(4_000);
    for (let second = 0; second < 60; second++) {
      register.seenMs.clear();
      await vi.advanceTimersByTimeAsync(700);
      expect(three.map((each) => each.count())).toEqual([3, 3, 3]);
    }
  });

  test("says goodbye when it stops, and never begins again", async () => {
    const register = new Register();
    const processes = new ProcessCount(register, timers);
    processes.count();
    await vi.advanceTimersByTimeAsync(0);
    await processes.stop();
    expect(register.seenMs.size).toBe(0);
    processes.count();
    expect(processes.count()).toBe(1);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(register.reports).toBe(1);
    expect(register.seenMs.size).toBe(0);
  });
});

describe("what a process knows of the others", () => {
  const known = () => {
    const membership = new Membership();
    membership.onAnswer({ count: 5, isNew: true }, 0, 0);
    return membership;
  };

  test("falls to the highest count of the time in which all were lower", () => {
    const membership = known();
    for (const [count, atUs] of [
      [4, 1],
      [2, GONE_AFTER_US],
    ] as const)
      membership.onAnswer({ count, isNew: false }, atUs, atUs);
    expect(membership.count).toBe(4);
  });

  test("is as old as the report that was answered, however late its answer comes", () => {
    const membership = known();
    membership.onAnswer({ count: 5, isNew: false }, GONE_AFTER_US, GONE_AFTER_US + 2_000_000);
    expect(membership.sureCount(GONE_AFTER_US + 2_500_000)).toBe(5);
    expect(membership.sureCount(GONE_AFTER_US + 2_500_001)).toBe(Number.POSITIVE_INFINITY);
  });
});
