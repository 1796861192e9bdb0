// Calls that pay, settle and look, in any order, for comparing holds with a model.

import fc from "fast-check";

/** A call some time after the one before it. */
export interface HoldOperation {
  readonly afterUs: number;
  readonly kind: "pay" | "settle" | "look";
  readonly id: string;
  readonly amount: number;
}

interface HoldOperationsOptions {
  /** Few, so that calls use each of them again. */
  readonly ids: readonly string[];
  readonly amounts: fc.Arbitrary<number>;
  /** Times between calls, in microseconds. */
  readonly distances: fc.Arbitrary<number>;
}

/** Ids are used again while they are live, settled or forgotten; reports come early, late, too high, too low, or never. */
export function holdOperations({ ids, amounts, distances }: HoldOperationsOptions): fc.Arbitrary<HoldOperation[]> {
  const operation = fc.record({
    afterUs: distances,
    kind: fc.constantFrom("pay" as const, "pay" as const, "settle" as const, "settle" as const, "look" as const),
    id: fc.constantFrom(...ids),
    amount: amounts,
  });
  return fc.array(operation, { minLength: 20, maxLength: 60 });
}
