// The recorded answers of envoyproxy/ratelimit, whose only store was one Redis, hold on every other store: answers,
// counters where they can be seen, and metrics.

import { beforeAll, describe, expect, test } from "vitest";
import { startCluster, startPostgres, startTwoRedis } from "../support/shared-stores.ts";
import { type CounterStore, inMemory, onPostgres, onRedis } from "./counter-stores.ts";
import { isMeant } from "./deviations.ts";
import { groupCases, needsOwnService, type RecordedCase, readCases, withDomainsOfTheirOwn } from "./recorded.ts";
import { replayGroup } from "./replay.ts";

const REPLAY_MS_MAX = 240_000;

// Faults and reloads are replayed on one Redis alone (vectors.server.test.ts).
const cases = readCases().filter((one) => !needsOwnService(one));
const withoutCommands = cases.filter(({ steps }) => steps.every(({ redisCmd }) => redisCmd === undefined));
const results = new Map<string, ReadonlyMap<string, readonly string[]>>();

interface Place {
  readonly name: string;
  readonly open: () => Promise<CounterStore>;
  readonly replayed: readonly RecordedCase[];
}

const PLACES: readonly Place[] = [
  { name: "a Redis Cluster", open: async () => onRedis(await startCluster()), replayed: cases },
  { name: "two Redis servers", open: async () => onRedis(await startTwoRedis()), replayed: cases },
  { name: "PostgreSQL", open: async () => onPostgres(await startPostgres()), replayed: withoutCommands },
  { name: "memory", open: async () => inMemory(), replayed: withDomainsOfTheirOwn(withoutCommands) },
];

beforeAll(async () => {
  // Two at a time: half of each is waiting.
  const waiting = [...PLACES];
  const lane = async () => {
    for (let place = waiting.shift(); place !== undefined; place = waiting.shift()) await replayOn(place);
  };
  await Promise.all([lane(), lane()]);
}, REPLAY_MS_MAX);

// Promise(compatibility): Answers, keys, lifetimes and counters equal the recorded ones, on every store.
describe.each(PLACES)("on $name the service answers as recorded", ({ name, replayed }) => {
  test.each([...replayed])("$name", (one) => {
    expect(
      results
        .get(name)
        ?.get(one.name)
        ?.filter((line) => !isMeant(one.name, line)),
    ).toEqual([]);
  });
});

async function replayOn({ name, open, replayed }: Place): Promise<void> {
  const found = new Map<string, readonly string[]>();
  results.set(name, found);
  const store = await open();
  try {
    for (const group of groupCases(replayed)) {
      const lines = await replayGroup(group, store);
      for (const [i, one] of group.entries()) found.set(one.name, lines[i] ?? ["not replayed"]);
    }
  } finally {
    await store.stop();
  }
}
