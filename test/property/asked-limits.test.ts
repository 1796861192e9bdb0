// What operators ask for, from the JSON of PUT /limits to what is in force: a change is refused, or it is in force as asked, whatever was set
// before.

import fc from "fast-check";
import { expect, test } from "vitest";
import { RequestError } from "../../src/base/errors.ts";
import type { AskedLimit } from "../../src/engine/runtime/runtime-limit.ts";
import { readAskedLimit } from "../../src/operate/http/read-asked-limit.ts";
import { createLogger } from "../../src/operate/telemetry/logger.ts";
import { openRuntimeLimits } from "../../src/process/app/runtime-limits.ts";
import { readSettings } from "../../src/settings/settings.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { rulesFromYaml } from "../support/rules.ts";
import { runs } from "../support/runs.ts";

const RULES = rulesFromYaml(`domain: edge
descriptors:
  - { key: tenant, rate_limit: { name: hourly, requests_per_unit: 2, unit: hour } }
`);
const CALLER = { domain: "edge", entries: [{ key: "tenant", value: "acme" }] };

const SOME = { minLength: 1, maxLength: 3 };

/** Years of four digits, which is what times are written with, and some around the last one that is kept. */
const end = fc.oneof(
  fc.date({ min: new Date("0001-01-01"), max: new Date("9999-12-31"), noInvalidDate: true }),
  fc.date({ min: new Date("2254-01-01"), max: new Date("2257-01-01"), noInvalidDate: true }),
);
const DAY = /(?<=^\d{4}-\d\d-)\d\d/;
/** With any number of the day, also of one that the month does not have. */
const until = fc.tuple(end, fc.integer({ min: 28, max: 31 }), fc.boolean()).map(([date, day, isOther]) => {
  const text = date.toISOString();
  return isOther ? text.replace(DAY, String(day)) : text;
});
const change = fc.oneof(
  fc.constant({ block: true }),
  fc.record({ exempt: fc.constant(true), global_limit: fc.boolean() }),
  // The only limit needs no name, and has one.
  fc.record({ requests_per_unit: fc.nat(4_294_967_295), limit: fc.constantFrom(undefined, "hourly") }),
  fc.record({
    amounts: fc.array(fc.record({ requests_per_unit: fc.nat(9), limit: fc.constantFrom("", "hourly") }), SOME),
  }),
);
const asked = fc.tuple(
  change,
  fc.record(
    {
      until,
      note: fc.oneof(fc.string({ maxLength: 256 }), fc.string({ unit: "binary", maxLength: 128 })),
    },
    { requiredKeys: [] },
  ),
);

function read(limit: object): AskedLimit | undefined {
  try {
    return readAskedLimit(limit, "limit", false);
  } catch (error) {
    if (error instanceof RequestError) return undefined;
    throw error;
  }
}

test("what is set is in force as it was asked for", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(asked, { minLength: 1, maxLength: 8 }), async (changes) => {
      const clock = new ManualClock(Date.UTC(2026, 0, 1) * 1_000);
      const logger = createLogger({ level: "silent", format: "json", clock, secrets: [] });
      const options = { settings: readSettings({}), clock, logger, shared: undefined, rules: () => RULES };
      const { source } = await openRuntimeLimits(options);
      for (const [what, more] of changes) {
        const before = source.of(CALLER);
        const limit = read({ ...CALLER, ...what, ...more });
        const limits = limit === undefined ? [] : [limit];
        const [set] = (await source.set(limits, "alice", { isDry: false, waits: false })).limits;
        const now = source.of(CALLER);
        if (set?.outcome !== "set") expect(now).toEqual(before);
        else {
          expect(now?.limits).toEqual(set.after);
          expect({ until: now?.until, note: now?.note ?? "" }).toEqual({ until: more.until, note: more.note ?? "" });
          const amounts = "amounts" in what ? what.amounts : "requests_per_unit" in what ? [what] : [];
          for (const { requests_per_unit } of amounts)
            expect(now?.limits?.join()).toContain(`: ${requests_per_unit} hit`);
        }
      }
    }),
    { numRuns: runs(200) },
  );
});

// Otherwise a change would be made without a part of what was asked for.
test.each([
  { block: "yes", requests_per_unit: 5 },
  { exempt: 1, requests_per_unit: 5 },
  { block: null, use: "gold" },
  { block: true, unit: "day" },
  { exempt: true, burst: 5 },
  { use: "gold", limit: "hourly" },
  { requests_per_unit: 5, amounts: [{ requests_per_unit: 6 }] },
  { amounts: [{ requests_per_unit: 6 }], burst: 7 },
  { block: true, until: "2027-02-31T00:00:00Z" },
])("refuses %j whole", (what) => {
  expect(() => readAskedLimit({ ...CALLER, ...what }, "limit", false)).toThrow(
    /^expected (?:true or false as|no \w+ with|a day that exists as limit\.until, got 2027-02-31$)/,
  );
});
