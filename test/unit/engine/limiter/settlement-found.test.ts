// One word for what a settlement found, though its limits differ: what was charged is never called settled before.

import { expect, test } from "vitest";
import { HoldFound, Mode } from "../../../../src/engine/domain/take.ts";
import { settlementFound } from "../../../../src/engine/limiter/decision.ts";
import { groupOf } from "../../../contract/store-harness.ts";
import { makeLimit } from "../../../support/builders.ts";

const budget = makeLimit({ holdSeconds: 60 });
const places = makeLimit({ holdSeconds: 60, isConcurrent: true });
const { none, settled } = HoldFound;
const LIVE = 20;

test.each([
  { of: "a budget", limits: [budget], held: [LIVE], says: "settled" },
  { of: "a budget", limits: [budget], held: [none], says: "unknown" },
  { of: "a budget", limits: [budget], held: [settled], says: "already_settled" },
  { of: "two budgets", limits: [budget, budget], held: [settled, LIVE], says: "settled" },
  { of: "two budgets", limits: [budget, budget], held: [none, settled], says: "unknown" },
  { of: "two budgets", limits: [budget, budget], held: [none, LIVE], says: "unknown" },
  { of: "a budget and places", limits: [budget, places], held: [settled, 1], says: "already_settled" },
  { of: "places and a budget", limits: [places, budget], held: [none, settled], says: "already_settled" },
  { of: "a budget and places", limits: [budget, places], held: [none, settled], says: "unknown" },
  { of: "a budget and places", limits: [budget, places], held: [LIVE, none], says: "settled" },
  { of: "places alone", limits: [places], held: [1], says: "settled" },
])("$held of $of is $says", ({ limits, held, says }) => {
  const group = groupOf(
    limits.map((limit) => ({ limit, mode: Mode.settle, descriptor: 0 })),
    "",
  );
  group.takes.forEach((take, i) => {
    take.outcome = 1;
    take.held = held[i] as number;
  });
  expect(settlementFound(group, 0)).toBe(says);
});
