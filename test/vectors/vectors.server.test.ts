// COMPATIBILITY_MODE against recorded answers of envoyproxy/ratelimit: answers, keys and lifetimes in Redis, counters.

import { beforeAll, expect, test } from "vitest";
import { startRedis } from "../support/shared-stores.ts";
import { onRedis } from "./counter-stores.ts";
import { DEVIATING_CASES, isMeant } from "./deviations.ts";
import { groupCases, type RecordedCase, readCases } from "./recorded.ts";
import { replayGroup } from "./replay.ts";

/** Services at a time; half of what they do is waiting. */
const LANES = 2;
const REPLAY_MS_MAX = 240_000;

const cases = readCases();
const results = new Map<string, readonly string[]>();

beforeAll(async () => {
  const groups = groupCases(cases);
  await Promise.all(Array.from({ length: LANES }, () => replayAll(groups)));
}, REPLAY_MS_MAX);

// Promise(compatibility): Answers, keys, lifetimes and counters equal the recorded ones, on every store.
test.each(cases)("in compatibility mode the service answers as recorded: $name", ({ name }) => {
  expect(results.get(name)?.filter((line) => !isMeant(name, line))).toEqual([]);
});

// A deviation that has gone must leave the list.
// Promise(compatibility): Answers differ from the recorded ones only where docs/migrating.md says so.
test.each(DEVIATING_CASES)("it differs on purpose in $name: $why", ({ name, places }) => {
  const lines = results.get(name) ?? [];
  const sure = places.filter((place) => !place.endsWith("?"));
  const missing = sure.filter((place) => !lines.some((line) => line.startsWith(`${place}:`)));
  expect(missing).toEqual([]);
  expect(lines.length).toBeGreaterThan(0);
});

/** Takes groups until none is left. */
async function replayAll(groups: RecordedCase[][]): Promise<void> {
  const store = onRedis(await startRedis());
  try {
    for (let group = groups.shift(); group !== undefined; group = groups.shift()) {
      const found = await replayGroup(group, store);
      for (const [i, one] of group.entries()) results.set(one.name, found[i] ?? ["not replayed"]);
    }
  } finally {
    await store.stop();
  }
}
