// Batches that another node sent on to a server that is not connected to: they wait for it, within a bound, and those that
// were answered meanwhile take no room.

import { expect, test, vi } from "vitest";
import { TakeGroup } from "../../../../src/engine/domain/take.ts";
import { completeOptions } from "../../../../src/stores/batching/options.ts";
import { RedisBatch } from "../../../../src/stores/redis/batch.ts";
import { RedisNode } from "../../../../src/stores/redis/redis-node.ts";
import { SILENT_STORE_OBSERVER } from "../../../../src/stores/store-observer.ts";
import { makeLimit } from "../../../support/builders.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

/** As ADOPTED_MAX of redis-node.ts. */
const ADOPTED_MAX = 1_024;
const DEADLINE_MS = 20;
const SCRIPT = { text: "text", sha: "sha" };

/** A node that is never connected to. */
function openNode() {
  const clock = new ManualClock();
  let kept = 0;
  const observer = {
    ...SILENT_STORE_OBSERVER,
    keptPaid(takes: number) {
      kept += takes;
    },
  };
  const node = new RedisNode({
    ...completeOptions({ clock, deadlineMs: DEADLINE_MS, observer }),
    scripts: { takeAll: SCRIPT, takeEach: SCRIPT },
    selfTestKeys: () => [],
    jitterSecondsMax: 0,
    finder: {
      name: "a Redis that is away",
      wantsPrimary: false,
      find: () => new Promise(() => undefined),
      onUsed: () => undefined,
      watch: () => undefined,
      close: () => undefined,
    },
  });
  return { clock, node, kept: () => kept };
}

test("batches for a node that stays away wait until their deadline, and leave their room to later ones", async () => {
  vi.useFakeTimers();
  const { clock, node } = openNode();
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

test("receipts for a node that can't be reached are counted when it closes, and passed on when it is dropped", async () => {
  vi.useFakeTimers();
  const limit = makeLimit({ amount: 10, burst: 10 });
  const receipt = { bucketKey: "k", limit, cost: 1, paidAtUs: 1, holdId: "", sinceUs: 0 };
  const adoptOne = () => {
    const { node, kept } = openNode();
    const batch = new RedisBatch();
    batch.receipts.push(receipt, receipt);
    node.adopt(batch, false);
    return { node, kept, batch };
  };
  const closed = adoptOne();
  expect(closed.batch.state).toBe("done");
  closed.node.close();
  expect(closed.kept()).toBe(2);
  const dropped = adoptOne();
  const passedOn: unknown[] = [];
  dropped.node.drainReceipts((one) => passedOn.push(one));
  dropped.node.close();
  expect([passedOn, dropped.kept()]).toEqual([[receipt, receipt], 0]);
  vi.useRealTimers();
});
