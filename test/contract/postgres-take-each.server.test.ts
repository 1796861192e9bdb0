// take_each is a quicker way to what take_all does for plain takes: what it pays it pays as take_all would, with equal rows
// left behind, and what it leaves take_all settles. So calls of both may follow one another on any bucket.

import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Algorithm } from "../../src/core/limit.ts";
import { Verdict } from "../../src/core/take.ts";
import { AMOUNT_MAX } from "../../src/core/units.ts";
import { bucketNumbers } from "../property/rates.ts";
import { makeLimit } from "../support/builders.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { runs } from "../support/runs.ts";
import { postgresHarness } from "./postgres-harness.ts";
import { ask, START_US, type StoreHarness } from "./store-harness.ts";

const KEYS = ["four", "one", "three", "two"];
/** Expiries are rounded up to this; see sql/001_buckets.sql. */
const GRAIN_US = 16_777_216;
/** And a row that is paid again lives so many of them longer. */
const GRAINS_MAX = 6;
/** Lifetimes end at ten years, and the two functions count those from different moments: what lives for nine is not compared. */
const LONG_US = START_US + 9 * 365 * 86_400 * 1_000_000;

let server: PostgresServer;
let harness: StoreHarness;
beforeAll(async () => {
  server = await PostgresServer.start();
  // Makes the tables.
  harness = await postgresHarness(server);
  await server.query("SET search_path TO headgate");
}, 60_000);
afterAll(async () => {
  await harness.close();
  await server.stop();
});

interface Numbers {
  readonly algorithm: number;
  readonly amount: number;
  readonly burst: number;
  readonly windowSeconds: number;
  /** Where windows of a calendar lie: in place of burst, window and most debt. */
  readonly edges?: readonly number[];
}
interface Asked {
  readonly key: number;
  readonly cost: number;
  readonly lateByUs: number | undefined;
}

const AMOUNTS = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 20 }), fc.constantFrom(AMOUNT_MAX - 1, AMOUNT_MAX));
const LIMIT: fc.Arbitrary<Numbers> = fc.oneof(
  bucketNumbers(),
  fc
    .record({
      algorithm: fc.constantFrom(Algorithm.tokenBucket, Algorithm.slidingWindow, Algorithm.fixedWindow),
      amount: AMOUNTS,
      windowSeconds: fc.oneof(fc.constantFrom(1, 60, 86_400, 31_536_000), fc.integer({ min: 1, max: 31_536_000 })),
    })
    .map((limit) => ({ ...limit, burst: limit.amount })),
  // Edges around the start of the clock, at it, or some seconds on; windows of a second to a quarter.
  fc
    .record({
      amount: AMOUNTS,
      before: fc.oneof(fc.constantFrom(0, 1, 3_600), fc.integer({ min: 0, max: 7_776_000 })),
      after: fc.oneof(fc.constantFrom(1, 2, 86_400), fc.integer({ min: 1, max: 7_776_000 })),
      next: fc.constantFrom(1, 82_800, 2_678_400),
    })
    .map(({ amount, before, after, next }) => ({
      algorithm: Algorithm.calendarWindow,
      amount,
      burst: amount,
      windowSeconds: 1,
      edges: [-before, after, after + next].map((seconds) => (Math.floor(START_US / 1e6) + seconds) * 1e6),
    })),
);
const COST = fc.oneof(
  fc.integer({ min: 1, max: 5 }),
  fc.integer({ min: 1, max: AMOUNT_MAX }),
  fc.constant(AMOUNT_MAX + 1),
);
const STEP = fc.record({
  asked: fc.uniqueArray(
    fc.record({
      key: fc.nat({ max: KEYS.length - 1 }),
      cost: COST,
      lateByUs: fc.constantFrom(undefined, undefined, -1, 0, 1),
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
  /** What each key's limit is in this call: edited rules in later ones. */
  limits: fc.array(fc.nat({ max: 2 }), { minLength: KEYS.length, maxLength: KEYS.length }),
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

const array = (values: readonly (string | number)[]) => `{${values.join()}}`;
const limitRow = ({ algorithm, amount, burst, windowSeconds, edges = [burst, windowSeconds] }: Numbers) => [
  algorithm,
  amount,
  ...edges.slice(0, 2),
];

/** The keys that it paid, and their rows as it replied them. */
async function takeEach(
  prefix: string,
  limits: readonly Numbers[],
  places: readonly number[],
  asked: readonly Asked[],
  nowUs: number,
) {
  const sorted = [...asked].sort((a, b) => (places[a.key] ?? 0) - (places[b.key] ?? 0) || a.key - b.key);
  const rows = await server.query("SELECT * FROM take_each_v3($1, $2, $3, $4, $5)", [
    array(sorted.map(({ key }) => prefix + KEYS[key])),
    array(sorted.map(({ cost }) => cost)),
    array(sorted.map(({ lateByUs }) => (lateByUs === undefined ? Number.MAX_SAFE_INTEGER : nowUs - lateByUs))),
    array(limits.flatMap((limit, at) => [...limitRow(limit), sorted.filter(({ key }) => places[key] === at).length])),
    nowUs,
  ]);
  expect(rows[0]).toMatchObject({ bucket_key: null, at_us: String(nowUs) });
  return new Map(rows.slice(1).map((row) => [KEYS.indexOf(String(row.bucket_key).slice(prefix.length)), row]));
}

/** The verdict and the take's numbers of each that is asked. */
async function takeAll(
  prefix: string,
  limits: readonly Numbers[],
  places: readonly number[],
  asked: readonly Asked[],
  nowUs: number,
) {
  const [row] = await server.query("SELECT take_all_v4($1, $2, $3, $4, NULL, true, false) AS reply", [
    array(asked.map(({ key }) => prefix + KEYS[key])),
    nowUs,
    array(limits.flatMap((limit) => [...limitRow(limit), limit.edges?.[2] ?? limit.burst, 0, 0])),
    array(
      asked.flatMap(({ key, cost, lateByUs }, at) => [
        ...[1, lateByUs === undefined ? 0 : nowUs - lateByUs, 0],
        ...[at + 1, (places[key] ?? 0) + 1, 0, 0, 0, cost, 0, 0],
      ]),
    ),
  ]);
  const reply = ((row?.reply ?? []) as string[]).map(Number);
  let at = 2;
  return asked.map(() => {
    const isLate = reply[at] === 3;
    const block = reply.slice(at, at + (isLate ? 1 : 7));
    at += block.length;
    return { isLate, isPaid: (block[1] ?? 0) >= 4, isDamaged: (reply[1] ?? 0) > 0 };
  });
}

/** What either function has left behind. */
async function storedRows() {
  const rows = await server.query("SELECT * FROM bucket WHERE bucket_key ~ '^[ae]:' ORDER BY bucket_key");
  const of = (prefix: string) =>
    rows
      .filter(({ bucket_key }) => String(bucket_key).startsWith(prefix))
      .map(({ bucket_key, expires_us, ...row }) => ({
        row: { ...row, key: String(bucket_key).slice(prefix.length) },
        expiresUs: Number(expires_us),
      }));
  return { all: of("a:"), each: of("e:") };
}

test("calls of plain takes pay the same by either function, and leave the same rows", async () => {
  const seen = { paid: 0, left: 0, late: 0, damaged: 0, refused: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(LIMIT, LIMIT, LIMIT),
      fc.array(STEP, { minLength: 1, maxLength: 10 }),
      fc.option(NONSENSE, { freq: 3 }),
      async (limits, steps, nonsense) => {
        await server.query("TRUNCATE bucket");
        let nowUs = START_US;
        for (const [number, { asked, us, limits: places }] of steps.entries()) {
          nowUs = Math.max(START_US, nowUs + us);
          const all = await takeAll("a:", limits, places, asked, nowUs);
          const paid = await takeEach("e:", limits, places, asked, nowUs);
          for (const [at, { key }] of asked.entries()) {
            const isPaid = all[at]?.isPaid === true;
            // It never pays what take_all would not.
            if (paid.has(key)) expect(isPaid).toBe(true);
            seen.left += isPaid && !paid.has(key) ? 1 : 0;
          }
          // What it leaves take_all settles: from then on all is equal.
          const left = asked.filter(({ key }) => !paid.has(key));
          const rest = await takeAll("e:", limits, places, left, nowUs);
          expect(rest.map(({ isPaid, isLate }) => [isPaid, isLate])).toEqual(
            left.map((one) => all[asked.indexOf(one)]).map((one) => [one?.isPaid, one?.isLate]),
          );
          const { all: allRows, each: eachRows } = await storedRows();
          expect(eachRows.map(({ row }) => row)).toEqual(allRows.map(({ row }) => row));
          for (const [key, { at_us, used, previous }] of paid) {
            const stored = eachRows.find(({ row }) => row.key === KEYS[key])?.row;
            expect(stored).toMatchObject({ at_us, used, previous });
          }
          for (const [at, { expiresUs }] of eachRows.entries()) {
            const longer = Math.min(expiresUs, LONG_US) - Math.min(allRows[at]?.expiresUs ?? 0, LONG_US);
            const tickUs = Math.max(...limits.map(({ windowSeconds }) => windowSeconds));
            expect(longer).toBeGreaterThanOrEqual(0);
            expect(longer).toBeLessThanOrEqual(GRAINS_MAX * GRAIN_US + Math.ceil(tickUs / GRAIN_US) * GRAIN_US);
          }
          seen.paid += paid.size;
          seen.late += all.filter(({ isLate }) => isLate).length;
          seen.refused += all.filter(({ isPaid, isLate }) => !isPaid && !isLate).length;
          seen.damaged += all.some(({ isDamaged }) => isDamaged) ? 1 : 0;
          if (number === 0 && nonsense !== null) await server.query(`UPDATE bucket SET ${nonsense}`);
        }
      },
    ),
    { numRuns: runs(100) },
  );
  // The generator has to reach what it is for, and take_each has to pay most of what can be paid.
  for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(0);
  expect(seen.left).toBeLessThan(seen.paid / 2);
});

test.each([
  { name: "plain takes, some of one bucket", second: [], needs: "take_each", broken: "take_all_v4" },
  {
    name: "groups of two takes",
    second: [{ limit: makeLimit(), identity: "both" }],
    needs: "take_all",
    broken: "take_each_v3",
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
  await own.close();
});
