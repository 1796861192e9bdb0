// Counting the processes that share a store: when it begins, when it is asked for, what it outlives. Timers move by hand.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ProcessCount, type ProcessRegister } from "../../../../src/stores/batching/process-count.ts";

/** A register in memory, that may be away or silent. */
class Register implements ProcessRegister {
  readonly seenMs = new Map<string, number>();
  reports = 0;
  isAway = false;
  isSilent = false;

  async report(id: string, goneAfterMs: number) {
    this.reports++;
    if (this.isAway) return undefined;
    this.seenMs.set(id, Date.now());
    for (const [each, ms] of this.seenMs) if (ms < Date.now() - goneAfterMs) this.seenMs.delete(each);
    return { count: this.seenMs.size, index: [...this.seenMs.keys()].toSorted().indexOf(id) };
  }

  async leave(id: string) {
    if (this.isSilent) await new Promise(() => undefined);
    this.seenMs.delete(id);
  }
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("a count of processes", () => {
  test("reports nothing before somebody asks, and knows the first answer a moment later", async () => {
    const register = new Register();
    const processes = new ProcessCount(register);
    await processes.beat();
    expect(register.reports).toBe(0);
    expect(processes.index()).toBe(-1);
    expect(processes.count()).toBe(1);
    await vi.advanceTimersByTimeAsync(0);
    expect([processes.count(), processes.index()]).toEqual([1, 0]);
    expect(register.reports).toBe(1);
  });

  test("has processes that start together know of each other well before the next beat", async () => {
    const register = new Register();
    const both = [new ProcessCount(register), new ProcessCount(register)];
    for (const each of both) each.start();
    await vi.advanceTimersByTimeAsync(300);
    expect(both.map((each) => each.count())).toEqual([2, 2]);
    expect(both.map((each) => each.index()).toSorted()).toEqual([0, 1]);
  });

  test("keeps what it knew while it can't report", async () => {
    const register = new Register();
    const both = [new ProcessCount(register), new ProcessCount(register)];
    for (const each of both) each.start();
    await vi.advanceTimersByTimeAsync(300);
    register.isAway = true;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(both.map((each) => each.count())).toEqual([2, 2]);
  });

  test("takes a process as gone that has been silent for three beats, not for two", async () => {
    const register = new Register();
    const processes = new ProcessCount(register);
    register.seenMs.set("silent", Date.now());
    processes.start();
    await vi.advanceTimersByTimeAsync(9_000);
    expect(processes.count()).toBe(2);
    await vi.advanceTimersByTimeAsync(3_000);
    expect(processes.count()).toBe(1);
  });

  test("says goodbye when it stops, and never begins again", async () => {
    const register = new Register();
    const processes = new ProcessCount(register);
    processes.start();
    await vi.advanceTimersByTimeAsync(0);
    await processes.stop();
    expect(register.seenMs.size).toBe(0);
    processes.start();
    expect(processes.count()).toBe(1);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(register.reports).toBe(1);
    expect(register.seenMs.size).toBe(0);
  });

  test("does not begin for a question that comes after a stop without a start", async () => {
    const register = new Register();
    const processes = new ProcessCount(register);
    await processes.stop();
    processes.count();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(register.reports).toBe(0);
  });

  test("stops in time although the goodbye gets no answer", async () => {
    const register = new Register();
    register.isSilent = true;
    const processes = new ProcessCount(register);
    processes.start();
    const stopped = vi.fn();
    void processes.stop().then(stopped);
    await vi.advanceTimersByTimeAsync(249);
    expect(stopped).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(stopped).toHaveBeenCalled();
  });
});
