// An old and a new version on one Redis, as in every rolling update: what both together let pass, and that neither breaks
// the other. The old one is the last build whose scripts and formats were others. (PostgreSQL's schema belongs to one version.)

import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ALGORITHM_NAMES, ALGORITHMS, Algorithm } from "../../src/core/limit.ts";
import { redisHarness } from "../contract/redis-harness.ts";
import { askOne, START_US, type StoreHarness } from "../contract/store-harness.ts";
import { type LimitNumbers, limitNumbers, limitOf } from "../property/histories.ts";
import { bucketNumbers } from "../property/rates.ts";
import { otherBuild } from "../support/other-build.ts";
import { RedisServer } from "../support/redis-server.ts";
import { runs } from "../support/runs.ts";

const OLD = "e9d726f";

async function oldRedisHarness(): Promise<typeof redisHarness> {
  const file = join(otherBuild(OLD), "test/contract/redis-harness.ts");
  return (await import(/* @vite-ignore */ file)).redisHarness;
}

/** Harnesses have key prefixes of their own; here all mean the same buckets. */
async function onOneKey(harness: Promise<StoreHarness>): Promise<StoreHarness> {
  return { ...(await harness), keyPrefix: "both:" };
}

interface Call {
  readonly isOld: boolean;
  readonly part: number;
  readonly costPart: number;
}

const CALLS = fc.array(
  fc.record({
    isOld: fc.boolean(),
    part: fc.integer({ min: 0, max: 400 }),
    costPart: fc.integer({ min: 1, max: 100 }),
  }),
  { minLength: 5, maxLength: 40 },
);

interface Grant {
  readonly atUs: number;
  readonly cost: number;
  readonly isOld: boolean;
}

/** Plays the calls by whichever version each is for, and tells what was granted when. */
async function play(
  versions: readonly StoreHarness[],
  numbers: LimitNumbers,
  identity: string,
  calls: readonly Call[],
) {
  const limit = limitOf(numbers);
  const fillUs = Math.min(1e13, (numbers.burst * numbers.windowSeconds * 1_000_000) / Math.max(1, numbers.amount));
  let nowUs = START_US;
  const grants: Grant[] = [];
  for (const { isOld, part, costPart } of calls) {
    nowUs += Math.floor((fillUs * part) / 1_000);
    for (const version of versions) version.setUs(nowUs);
    const cost = Math.max(1, Math.floor((numbers.burst * costPart) / 100));
    const take = await askOne(versions[isOld ? 0 : 1] as StoreHarness, { limit, cost, identity });
    if (take.paid) grants.push({ atUs: nowUs, cost, isOld });
  }
  return grants;
}

/**
 * True if some stretch of time was granted more than one version alone may grant. The old one dates what it pays on a token
 * bucket back to the beginning of a tick (as many microseconds as the window has seconds), of which the new one counts the
 * part that has passed: a tick's tokens more for each payment of the old one.
 */
function exceeds(numbers: LimitNumbers, grants: readonly Grant[]): boolean {
  const windowUs = numbers.windowSeconds * 1_000_000;
  return grants.some((first, from) => {
    let sum = 0n;
    let oldPayments = 0n;
    return grants.slice(from).some(({ atUs, cost, isOld }) => {
      sum += BigInt(cost);
      oldPayments += isOld ? 1n : 0n;
      if (numbers.algorithm === Algorithm.tokenBucket) {
        const { burst, amount, windowSeconds } = numbers;
        const more = oldPayments * BigInt(amount) * BigInt(windowSeconds);
        const bound = BigInt(burst) * BigInt(windowUs) + BigInt(amount) * BigInt(atUs - first.atUs) + more;
        return sum * BigInt(windowUs) > bound;
      }
      const isOneStretch =
        numbers.algorithm === Algorithm.slidingLog
          ? atUs - first.atUs < windowUs
          : Math.floor(atUs / windowUs) === Math.floor(first.atUs / windowUs);
      return isOneStretch && sum > BigInt(numbers.amount);
    });
  });
}

/** The version before refuses rules with calendar windows. */
const BOTH_KNOW = ALGORITHMS.filter((algorithm) => algorithm !== Algorithm.calendarWindow);

describe("an old and a new version on one Redis", () => {
  let server: RedisServer;
  const open: StoreHarness[] = [];
  let versions: readonly StoreHarness[];
  let openOld: () => Promise<StoreHarness>;
  let openNew: () => Promise<StoreHarness>;

  beforeAll(async () => {
    const old = await oldRedisHarness();
    server = await RedisServer.start();
    openOld = () => onOneKey(old(server));
    openNew = () => onOneKey(redisHarness(server));
    // The old one is there first; the new one brings its scripts along while the old one is at work.
    versions = [await openOld(), await openNew()];
    open.push(...versions);
  }, 120_000);
  afterAll(async () => {
    for (const harness of open) await harness.close();
    await server.stop();
  });

  // Promise(outages): An old and a new version on one store grant together what one would, and either may start first.
  test.each(BOTH_KNOW.map((algorithm) => ({ algorithm, name: ALGORITHM_NAMES[algorithm] })))(
    "grant together what one may: $name",
    async ({ algorithm, name }) => {
      let played = 0;
      const numbers = algorithm === Algorithm.tokenBucket ? bucketNumbers() : limitNumbers([algorithm], 1);
      await fc.assert(
        fc.asyncProperty(numbers, CALLS, async (limit, calls) => {
          const grants = await play(versions, limit, `${name}-${played++}`, calls);
          expect(exceeds(limit, grants)).toBe(false);
        }),
        { numRuns: runs(60) },
      );
    },
  );

  // Promise(outages): An old and a new version on one store grant together what one would, and either may start first.
  test("a process of either version starts and takes while the other is there", async () => {
    const limit = limitOf({ algorithm: Algorithm.fixedWindow, amount: 8, burst: 8, windowSeconds: 60, debtMax: 8 });
    for (const [i, reopen] of [openOld, openNew, openOld, openNew].entries()) {
      const harness = await reopen();
      open.push(harness);
      harness.setUs(START_US);
      expect(await askOne(harness, { limit, identity: "starts" })).toMatchObject({ paid: true, remaining: 7 - i });
    }
  });
});
