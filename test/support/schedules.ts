// Generators of what happens to simulated processes: weather, callers, and processes that come and go.

import fc from "fast-check";
import { GIVE_BACK_US_MAX, type Step } from "./simulated-fleet.ts";
import type { Weather } from "./simulated-world.ts";

/** Any weather; `delayUsMax` and loss from none to a lot. */
export const weathers: fc.Arbitrary<Weather> = fc.record({
  seed: fc.nat(),
  delayUsMax: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 10_000 }), fc.integer({ min: 1, max: 60_000 })),
  lossOneIn: fc.oneof(
    { weight: 2, arbitrary: fc.constant(0) },
    fc.integer({ min: 2, max: 4 }),
    fc.integer({ min: 5, max: 50 }),
  ),
  deadlineUs: fc.constantFrom(15_000, 50_000, 300_000),
  skewUs: fc.integer({ min: -5_000_000, max: 5_000_000 }),
});

const pauseUs = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 3_000 }) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 60_000 }) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 1_200_000 }) },
);
const process = fc.nat({ max: 9 });

/** Callers that call in bursts, wait, often give back, and go on over the ends of windows; rules that are read again. */
export function calling(costMax: number): fc.Arbitrary<Step[]> {
  const cost = fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, fc.integer({ min: 1, max: costMax }));
  const calls = fc.record({
    does: fc.constant("calls" as const),
    process,
    times: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 12 }) }, fc.integer({ min: 13, max: 60 })),
    cost,
  });
  const givesBack = fc.record({
    does: fc.constant("givesBack" as const),
    process,
    cost: fc.oneof(cost, fc.integer({ min: 1, max: 4 * costMax })),
    afterUs: fc.integer({ min: 0, max: GIVE_BACK_US_MAX }),
  });
  const waits = fc.record({ does: fc.constant("waits" as const), us: pauseUs });
  const reloads = fc.constant({ does: "reloads" as const });
  const one = fc.oneof(
    { weight: 10, arbitrary: calls },
    { weight: 8, arbitrary: waits },
    { weight: 2, arbitrary: givesBack },
    { weight: 1, arbitrary: reloads },
  );
  const few = fc
    .array(
      fc.oneof(
        { weight: 30, arbitrary: one.map((step) => [step]) },
        { weight: 1, arbitrary: lateReturn },
        { weight: 1, arbitrary: largeReturn },
      ),
      { minLength: 10, maxLength: 40, size: "max" },
    )
    .map((steps) => steps.flat());
  return fc.tuple(few, overEnd, few, overEnd).map((blocks) => blocks.flat());
}

/** A busy bucket of which something is given back after a pause in which it was forgotten, while it is busy again. */
const lateReturn: fc.Arbitrary<Step[]> = fc
  .record({
    process,
    cost: fc.integer({ min: 1, max: 6 }),
    quietUs: fc.integer({ min: 200_000, max: 400_000 }),
    times: fc.integer({ min: 2, max: 12 }),
    againUs: fc.integer({ min: 0, max: 3_000 }),
  })
  .map(({ quietUs, againUs, ...rest }) =>
    returning({ ...rest, first: 2, afterUs: quietUs + againUs, quietUs, againUs: 2 * againUs }),
  );

/** A large cost that is given back soon, while the bucket is leased, before the end of a window; then all that there is. */
const largeReturn: fc.Arbitrary<Step[]> = fc
  .record({
    process,
    cost: fc.integer({ min: 2, max: 36 }),
    beforeUs: fc.integer({ min: 0, max: 150_000 }),
    afterUs: fc.integer({ min: 0, max: 20_000 }),
    quietUs: fc.integer({ min: 20_000, max: 190_000 }),
    againUs: fc.constantFrom(0, 850_000),
  })
  .map(({ beforeUs, ...rest }) => [
    { does: "waitsForEnd", us: beforeUs },
    ...returning({ ...rest, first: 1, times: 60 }),
  ]);

interface Returning {
  readonly process: number;
  readonly first: number;
  readonly cost: number;
  readonly afterUs: number;
  readonly quietUs: number;
  readonly times: number;
  readonly againUs: number;
}

/** Calls, something that is given back, a quiet time, and calls again, at last for all that there is. */
function returning({ process, first, cost, afterUs, quietUs, times, againUs }: Returning): Step[] {
  return [
    { does: "calls", process, times: first, cost: 1 },
    { does: "waits", us: 1_000 },
    { does: "givesBack", process, cost, afterUs },
    { does: "waits", us: quietUs },
    { does: "calls", process, times, cost: 1 },
    { does: "waits", us: againUs },
    { does: "calls", process, times: 60, cost: 1 },
  ];
}

/** Work that goes on over the end of a window, quicker and quicker. */
const overEnd: fc.Arbitrary<Step[]> = fc
  .record({
    beforeUs: fc.integer({ min: 0, max: 60_000 }),
    everyUs: fc.integer({ min: 4_000, max: 20_000 }),
    times: fc.integer({ min: 0, max: 40 }),
    process: fc.nat({ max: 9 }),
  })
  .map(({ beforeUs, everyUs, times, process }) => [
    { does: "works", us: 250_000, everyUs },
    { does: "waitsForEnd", us: beforeUs },
    { does: "works", us: 100_000, everyUs: 2_000 + (everyUs >> 2) },
    { does: "calls", process, times, cost: 1 },
    { does: "works", us: 200_000, everyUs },
  ]);

/** Processes that work on, and come, go, die and stand still meanwhile. `accidents` of the data come on top. */
export function changing(accidents: readonly Step["does"][] = []): fc.Arbitrary<Step[]> {
  const works = fc.record({
    does: fc.constant("works" as const),
    us: fc.oneof(fc.integer({ min: 1_000, max: 400_000 }), fc.integer({ min: 1_000, max: 4_000_000 })),
    everyUs: fc.integer({ min: 10_000, max: 40_000 }),
  });
  const events: fc.Arbitrary<Step>[] = [
    fc.record({ does: fc.constant("joins" as const), count: fc.integer({ min: 1, max: 3 }) }),
    fc.record({ does: fc.constantFrom("leaves" as const, "dies" as const), process }),
    fc.record({
      does: fc.constant("stops" as const),
      process,
      us: fc.oneof(fc.integer({ min: 1_000, max: 400_000 }), fc.integer({ min: 1_000, max: 13_000_000 })),
    }),
    ...accidents.map((does) => fc.constant({ does } as Step)),
  ];
  const drains = fc.record({
    does: fc.constant("drains" as const),
    afterUs: fc.integer({ min: 0, max: 200_000 }),
    againUs: fc.integer({ min: 700_000, max: 1_000_000 }),
    times: fc.integer({ min: 20, max: 100 }),
  });
  return fc.array(fc.oneof(works, drains, { weight: 2, arbitrary: fc.oneof(...events) }), {
    minLength: 4,
    maxLength: 10,
    size: "max",
  });
}
