// Batches that another node sent on to a server that is not connected to: they wait for it, within a bound, and those that
// were answered meanwhile take no room.

import { expect, test, vi } from "vitest";
import { TakeGroup } from "../../../../src/core/take.ts";
import { completeOptions } from "../../../../src/stores/batching/options.ts";
import { RedisBatch } from "../../../../src/stores/redis/batch.ts";
import { RedisNode } from "../../../../src/stores/redis/redis-node.ts";
import { makeLimit } from "../../../support/builders.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

/** As ADOPTED_MAX of redis-node.ts. */
const ADOPTED_MAX = 1_024;
const DEADLINE_MS = 20;
const SCRIPT = { text: "text", sha: "sha" };

test("batches for a node that stays away wait until their deadline, and leave their room to later ones", async () => {
  vi.useFakeTimers();
  const clock = new ManualClock();
  const node = new RedisNode({
    ...completeOptions({ clock, deadlineMs: DEADLINE_MS }),
    scripts: { takeAll: SCRIPT, takeEach: SCRIPT },
    selfTestKeys: () => [],
    jitterSecondsMax: 0,
    onUp: () => undefined,
    finder: {
      name: "a Redis that is away",
      wantsPrimary: false,
      find: () => new Promise(() => undefined),
      onUsed: () => undefined,
      watch: () => undefined,
      close: () => undefined,
    },
  });
  const adopt = (): { answers: number } => {
    const group = new TakeGroup();
    const take = group.add(makeLimit({ amount: 10, burst: 10 }));
    take.bucketKey = "k";
    const seen = { answers: 0 };
    group.deadlineUs = clock.nowUs() + DEADLINE_MS * 1_000; // what the node that had it first left of its time
    const batch = new RedisBatch();
    batch.add(group, { settled: () => seen.answers++ });
    node.adopt(batch, false);
    return seen;
  };
  const pass = async (ms: number) => {
    clock.advanceMs(ms);
    await vi.advanceTimersByTimeAsync(ms);
  };
  const first = Array.from({ length: ADOPTED_MAX }, adopt);
  expect(adopt().answers).toBe(1); // one too many
  expect(first.some(({ answers }) => answers > 0)).toBe(false);
  await pass(DEADLINE_MS + 5);
  expect(first.every(({ answers }) => answers === 1)).toBe(true);
  const later = adopt();
  expect(later.answers).toBe(0);
  await pass(DEADLINE_MS + 5);
  expect(later.answers).toBe(1);
  node.close();
  vi.useRealTimers();
});
