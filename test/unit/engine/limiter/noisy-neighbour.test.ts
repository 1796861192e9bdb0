// A noisy tenant and nine quiet ones under one limit of 100 calls a second, in virtual time: how many calls within a guarantee
// are refused, with numbers that keep it and with numbers that don't. docs/sharing.md has the table.

import { describe, expect, test } from "vitest";
import { isOver, type Take } from "../../../../src/engine/domain/take.ts";
import { MemoryStore } from "../../../../src/stores/memory/memory-store.ts";
import { LimiterRig } from "../../../support/limiter-rig.ts";

const SECONDS = 60;
const NOISY_A_SECOND = 900;

interface Neighbours {
  readonly burst: number;
  readonly guarantee?: { readonly burst: number; readonly callers: number };
  /** Calls that each quiet tenant sends at once, and how often. */
  readonly times: number;
  readonly everyMs: number;
  readonly quiet: number;
}

function run({ burst, guarantee, times, everyMs, quiet }: Neighbours) {
  const own = { entry: "tenant", tokens_per_second: 10, keep: "10%" };
  const limit = { tokens_per_second: 100, burst, ...(guarantee && { guarantee: { ...own, ...guarantee } }) };
  const rig = new LimiterRig(JSON.stringify({ domain: "edge", global_limit: limit }), {
    openStore: (clock) => new MemoryStore({ clock, bucketsMax: 1_024 }),
  });
  const passes = (tenant: string) => {
    const call = rig.begin([{ entries: { tenant } }], 1, "edge");
    rig.limiter.decide(call, Number.POSITIVE_INFINITY);
    return !isOver(call.globalTake as Take);
  };
  const counts = { quietAsked: 0, quietRefused: 0, passed: 0 };
  const startUs = rig.clock.nowUs();
  for (let ms = 0; ms < SECONDS * 1_000; ms++) {
    rig.clock.setUs(startUs + ms * 1_000);
    if (ms % 10 < (NOISY_A_SECOND * 10) / 1_000 && passes("noisy")) counts.passed++;
    for (let tenant = 0; tenant < quiet; tenant++) {
      // Tenants send at different moments.
      if (ms < 500 || (ms + tenant * 7) % everyMs !== 0) continue;
      for (let i = 0; i < times; i++) {
        counts.quietAsked++;
        if (passes(`quiet-${tenant}`)) counts.passed++;
        else counts.quietRefused++;
      }
    }
  }
  const limit_ = rig.limiter.rules?.domains.get("edge")?.globalLimit?.limit;
  return { ...counts, broken: limit_?.stats.guaranteeBroken ?? 0, keptFor: limit_?.priority?.guarantee?.keptFor };
}

const SINGLY = { times: 1, everyMs: 200, quiet: 9 };
const IN_TENS = { times: 10, everyMs: 2_000, quiet: 9 };

describe("a noisy neighbour", () => {
  test("has most calls of quiet tenants refused under a plain limit", () => {
    const { quietAsked, quietRefused } = run({ burst: 100, ...SINGLY });
    expect(quietRefused / quietAsked).toBeGreaterThan(0.5);
  });

  test.each([
    ["single calls, burst 1", { burst: 100, guarantee: { burst: 1, callers: 9 }, ...SINGLY }, 10],
    [
      "ten at once, burst 1: only calls within are promised",
      { burst: 100, guarantee: { burst: 1, callers: 9 }, ...IN_TENS },
      10,
    ],
    ["ten at once, shared burst 1,000", { burst: 1_000, guarantee: { burst: 10, callers: 9 }, ...IN_TENS }, 10],
  ])(
    "has no call within a guarantee refused that is kept, and the limit is used whole: %s",
    (_, neighbours, keptFor) => {
      const found = run(neighbours);
      expect(found).toMatchObject({ broken: 0, keptFor });
      expect(found.passed).toBeGreaterThanOrEqual(0.99 * (100 * SECONDS + 0.9 * neighbours.burst));
      expect(found.passed).toBeLessThanOrEqual(100 * SECONDS + neighbours.burst);
    },
  );

  test.each([
    [
      "ten at once, each guaranteed ten, of which ten are kept",
      { burst: 100, guarantee: { burst: 10, callers: 9 }, ...IN_TENS },
      1,
    ],
    [
      "200 invented tenants",
      { burst: 1_000, guarantee: { burst: 10, callers: 200 }, times: 10, everyMs: 1_000, quiet: 200 },
      10,
    ],
  ])("is not held off beyond what check counts, and the metric says so: %s", (_, neighbours, keptFor) => {
    const found = run(neighbours);
    expect(found.keptFor).toBe(keptFor);
    expect(found.broken).toBeGreaterThan(100);
  });
});
