// take_each is a quicker way to what the settlement under lock does for plain takes: it pays what that would pay, and leaves equal
// rows behind. So calls of both may follow one another on any bucket, also on rows with nonsense in them.

import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { AMOUNT_MAX } from "../../src/base/units.ts";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { Kind, Mode, Verdict } from "../../src/engine/domain/take.ts";
import { calendarNumbers, type LimitNumbers, limitNumbers, limitOf } from "../property/histories.ts";
import { bucketNumbers } from "../property/rates.ts";
import { makeLimit } from "../support/builders.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { runs } from "../support/runs.ts";
import { postgresHarness } from "./postgres-harness.ts";
import { type Ask, ask, START_US, type StoreHarness } from "./store-harness.ts";

const KEYS = ["four", "one", "three", "two"];
/** Expiries are rounded up by six of these at most; see sql/take_each.sql. */
const GRAIN_US = 16_777_216;
const GRAINS_MAX = 6;
/** Lifetimes end at ten years, and the two ways count those from different moments: what lives for nine is not compared. */
const LONG_US = START_US + 9 * 365 * 86_400 * 1_000_000;

let server: PostgresServer;
let harness: StoreHarness;
beforeAll(async () => {
  server = await PostgresServer.start();
  harness = await postgresHarness(server);
}, 60_000);

const PLAIN = [Algorithm.tokenBucket, Algorithm.slidingWindow, Algorithm.fixedWindow];
/** A limit, and another amount that its rule is edited to. */
const EDITED = fc
  .tuple(
    fc.oneof(
      bucketNumbers(),
      limitNumbers(PLAIN),
      calendarNumbers().map((limit) => ({ ...limit, holdSeconds: 0 })),
    ),
    fc.oneof(fc.integer({ min: 0, max: 20 }), fc.constantFrom(AMOUNT_MAX - 1, AMOUNT_MAX)),
  )
  .map(([numbers, amount]): LimitNumbers[] => [numbers, { ...numbers, amount, burst: amount, debtMax: amount }]);
const STEP = fc.record({
  asked: fc.uniqueArray(
    fc.record({
      key: fc.constantFrom(...KEYS),
      cost: fc.oneof(
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: AMOUNT_MAX }),
        fc.constant(AMOUNT_MAX + 1),
      ),
      isEdited: fc.boolean(),
    }),
    { minLength: 1, maxLength: KEYS.length, selector: ({ key }) => key },
  ),
  // Also a clock that steps back, by less and by more than what is believed, and years that pass.
  us: fc.oneof(
    fc.integer({ min: 0, max: 2_000_000 }),
    fc.constantFrom(0, -1, -5_000_000, -30_000_000, 86_400_000_000, 63_072_000_000_000),
    // Onto edges of windows.
    fc.constantFrom(1_000_000, 2_000_000),
  ),
});
const NONSENSE = fc.constantFrom(
  "at_us = -1",
  "at_us = -9223372036854775808",
  "at_us = at_us + 1",
  "used = -5",
  "used = 9223372036854775807",
  "used = 9007199254740991",
  "previous = 4294967296",
  "previous = -1",
  "at_us = 0, used = 0, previous = 0",
  "expires_us = -9223372036854775808",
  "expires_us = 9223372036854775807",
);

/** What both ways have left behind, by key. `previous` is a number of sliding windows alone: other rows may keep any. */
async function storedRows(way: string, isSliding: boolean) {
  const rows = await server.query("SELECT * FROM headgate.bucket WHERE bucket_key LIKE $1 ORDER BY 1", [
    `%id=${way} %`,
  ]);
  return rows.map(({ bucket_key, expires_us, previous, ...row }) => ({
    row: { ...row, previous: isSliding ? previous : undefined, key: String(bucket_key).replace(`id=${way} `, "") },
    expiresUs: Number(expires_us),
  }));
}

test("plain takes are paid alike by take_each and under lock, and leave the same rows", async () => {
  const seen = { paid: 0, refused: 0, damaged: 0 };
  await fc.assert(
    fc.asyncProperty(
      EDITED,
      fc.array(STEP, { minLength: 1, maxLength: 10 }),
      fc.option(NONSENSE, { freq: 3 }),
      async (numbers, steps, nonsense) => {
        await server.query("TRUNCATE headgate.bucket");
        const limits = numbers.map(limitOf);
        const isSliding = ![Algorithm.tokenBucket, Algorithm.fixedWindow].some((one) => one === limits[0]?.algorithm);
        let nowUs = START_US;
        for (const [number, { asked, us }] of steps.entries()) {
          nowUs = Math.max(START_US, nowUs + us);
          harness.setUs(nowUs);
          // A peek in the same call keeps a take from being plain.
          const settled = async (way: string, peeks: boolean) => {
            const groups = asked.map(({ key, cost, isEdited }) => {
              const one: Ask = { limit: limits[isEdited ? 1 : 0] ?? makeLimit(), identity: `${way} ${key}`, cost };
              return ask(harness, peeks ? [one, { ...one, mode: Mode.peek, kind: Kind.shadow }] : [one]);
            });
            return (await Promise.all(groups)).map(({ takes: [take] }) => ({
              paid: take?.paid,
              outcome: take?.outcome,
              remaining: take?.remaining,
              waitUs: take?.waitUs,
              resetUs: take?.resetUs,
              paidAtUs: take?.paidAtUs,
            }));
          };
          const each = await settled("each", false);
          expect(each).toEqual(await settled("locked", true));
          const eachRows = await storedRows("each", isSliding);
          const lockedRows = await storedRows("locked", isSliding);
          expect(eachRows.map(({ row }) => row)).toEqual(lockedRows.map(({ row }) => row));
          for (const [at, { expiresUs }] of eachRows.entries()) {
            const apart = Math.abs(Math.min(expiresUs, LONG_US) - Math.min(lockedRows[at]?.expiresUs ?? 0, LONG_US));
            const tickUs = Math.max(...limits.map(({ windowSeconds }) => windowSeconds));
            expect(apart).toBeLessThanOrEqual((GRAINS_MAX + Math.ceil(tickUs / GRAIN_US)) * GRAIN_US);
          }
          seen.paid += each.filter(({ paid }) => paid).length;
          seen.refused += each.filter(({ paid }) => paid === false).length;
          if (number > 0 || nonsense === null) continue;
          seen.damaged++;
          await server.query(`UPDATE headgate.bucket SET ${nonsense}`);
        }
      },
    ),
    { numRuns: runs(100) },
  );
  // The generator has to reach what it is for.
  for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
});

test.each([
  { name: "plain takes, some of one bucket", second: [], needs: "take_each", broken: "lock_buckets" },
  {
    name: "groups of two takes",
    second: [{ limit: makeLimit(), identity: "both" }],
    needs: "lock_buckets",
    broken: "take_each",
  },
])("$name need nothing but $needs", async ({ second, broken }) => {
  const schema = `without_${broken}`;
  const own = await postgresHarness(server, { schema });
  const [row] = await server.query("SELECT pg_get_functiondef($1::regproc) AS text", [`${schema}.${broken}`]);
  const [head] = String(row?.text).split("AS $function$");
  await server.query(`${head} AS 'BEGIN RAISE EXCEPTION ''called''; END'`);
  const takes = ["one", "two", "one", "three"].map((identity) =>
    ask(own, [{ limit: makeLimit(), identity }, ...second]),
  );
  for (const { verdict } of await Promise.all(takes)) expect(verdict).toBe(Verdict.allowed);
});
