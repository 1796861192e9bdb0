// Plain takes lock rows in the order of their keys, as takes under lock do, whatever their limits.

import { expect, test } from "vitest";
import { Algorithm } from "../../../../src/engine/domain/limit.ts";
import { takeEachArguments } from "../../../../src/stores/postgres/take-each.ts";
import { makeLimit } from "../../../support/builders.ts";

const bucket = makeLimit({ amount: 10, burst: 20, windowSeconds: 1 });
const window = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 30, windowSeconds: 60 });
const take = (storedKey: string, place: number, limit = bucket, cost = 1, latestUs = 0) => ({
  place,
  storedKey,
  limit,
  cost,
  latestUs,
});

test("keys are sorted across limits, takes on one key are one payment, and a limit comes again for each run of its keys", () => {
  const takes = [take("c", 1), take("b", 2, window), take("a", 3, bucket, 2, 7), undefined, take("a", 3, bucket, 3, 5)];
  expect(takeEachArguments([...takes, take("d", 4)])).toEqual([
    '{"a","b","c","d"}',
    "{5,1,1,1}",
    `{5,${Number.MAX_SAFE_INTEGER},${Number.MAX_SAFE_INTEGER},${Number.MAX_SAFE_INTEGER}}`,
    "{0,10,20,1,1,2,30,30,60,1,0,10,20,1,2}",
  ]);
});

test("two limits of one bucket, as while a rule is edited, are not for take_each", () => {
  expect(takeEachArguments([take("a", 1), take("a", 1, { ...bucket, amount: 11 })])).toBeUndefined();
});
