// COMPATIBILITY_MODE against recorded answers of envoyproxy/ratelimit: answers, keys and lifetimes in Redis, counters.

import { beforeAll, describe, expect, test } from "vitest";
import { RedisServer } from "../support/redis-server.ts";
import { DEVIATIONS } from "./deviations.ts";
import { groupCases, type RecordedCase, readCases } from "./recorded.ts";
import { replayGroup } from "./replay.ts";

/** Processes at a time; two cores are enough for two. */
const LANES = 2;
const REPLAY_MS_MAX = 240_000;

const cases = readCases();
const results = new Map<string, readonly string[]>();

describe("the service in compatibility mode answers as recorded", () => {
  beforeAll(async () => {
    const groups = groupCases(cases);
    await Promise.all(Array.from({ length: LANES }, () => replayAll(groups)));
  }, REPLAY_MS_MAX);

  const sameCases = cases.filter(({ name }) => DEVIATIONS[name] === undefined);
  test.each(sameCases)("$name", ({ name }) => {
    expect(results.get(name)).toEqual([]);
  });

  // A deviation that has gone must leave the list.
  test.each(Object.keys(DEVIATIONS))("but differs on purpose: %s", (name) => {
    expect(results.get(name)?.length).toBeGreaterThan(0);
  });
});

/** Takes groups until none is left. */
async function replayAll(groups: RecordedCase[][]): Promise<void> {
  const redis = await RedisServer.start();
  try {
    for (let group = groups.shift(); group !== undefined; group = groups.shift()) {
      const found = await replayGroup(group, redis);
      for (const [i, one] of group.entries()) results.set(one.name, found[i] ?? ["not replayed"]);
    }
  } finally {
    await redis.stop();
  }
}
