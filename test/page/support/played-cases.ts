// Rule files and calls by dice, for the playground and `headgate test` alike.

import fc from "fast-check";
import { stringify } from "yaml";
import { runs } from "../../support/runs.ts";

const CASES = 1_000;

/** One call, at a time of its own. */
export interface Step {
  readonly after: string;
  readonly call: string | readonly string[];
  readonly hits?: number;
  readonly refund?: true;
  readonly peek?: true;
  readonly store?: "away" | "back";
}

export interface Generated {
  /** A rule file, as a mapping. */
  readonly rules: object;
  readonly steps: readonly Step[];
}

const name = fc.constantFrom("per-second", "slow", "a", "Größe");
const amount = fc.integer({ min: 1, max: 12 });
const unit = fc.constantFrom("second", "minute", "hour", "day", "month", "year");
const calendar = fc.record({
  calendar: fc.constantFrom("day", "week", "month", "quarter", "year"),
  time_zone: fc.constantFrom("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"),
});
const limit = fc.oneof(
  fc.tuple(amount, fc.nat(20)).map(([rate, more]) => ({ tokens_per_second: rate, burst: rate + more })),
  fc.record({
    requests_per_unit: amount,
    unit,
    algorithm: fc.constantFrom("token_bucket", "sliding_window", "fixed_window"),
  }),
  fc.record({
    requests_per_unit: amount,
    window: fc.constantFrom("10s", "5m", "7d"),
    algorithm: fc.constant("sliding_log"),
  }),
  fc.record({ requests_per_unit: amount, window: calendar }),
  fc.record({ unlimited: fc.constant(true) }),
);
const limits = fc
  .uniqueArray(fc.tuple(name, limit), { minLength: 2, maxLength: 3, selector: ([one]) => one })
  .map((all) => ({
    rate_limits: all.filter(([, one]) => !("unlimited" in one)).map(([named, one]) => ({ name: named, ...one })),
  }))
  .filter(({ rate_limits }) => rate_limits.length > 0);
const limited = fc.oneof(
  limit.map((one) => ({ rate_limit: one })),
  limits,
);
const matching = fc.constantFrom(
  {},
  { value: "acme" },
  { match: { prefix: "ac" } },
  { match: { regex: "^a.*[0-9]$" } },
  { match: { one_of: ["acme", "Ωmega"] } },
);
const options = fc.constantFrom({}, { on_store_failure: "deny" }, { on_store_failure: "local" }, { shadow_mode: true });
const tenant = fc.tuple(matching, limited, options, fc.boolean()).map(([match, one, more, hashes]) => ({
  key: "tenant",
  ...match,
  ...one,
  ...(isUnlimited(one) ? {} : more),
  ...(hashes ? { hash_values: true } : {}),
}));
const isUnlimited = (one: object) => JSON.stringify(one).includes('"unlimited"');
const address = fc.record({
  key: fc.constant("remote_address"),
  address: fc.constantFrom(true, { ipv6: 48 }, { ipv6: 64 }),
  rate_limit: limit,
});
const held = fc.integer({ min: 20, max: 200 }).map((burst) => ({
  key: "model",
  hold: { id: "request", estimate: "tokens", default: 10, max: 50, ttl: "30s" },
  rate_limit: { tokens_per_second: 5, burst },
}));
const nested = fc
  .tuple(limited, limited)
  .map(([outer, inner]) => ({ key: "plan", ...outer, descriptors: [{ key: "user", ...inner }] }));
const domain = fc.record(
  {
    domain: fc.constant("edge"),
    global_limit: limit.filter((one) => !("unlimited" in one)),
    descriptors: fc.tuple(tenant, address, held, nested),
  },
  { requiredKeys: ["domain", "descriptors"] },
);

const call = fc.oneof(
  fc.constantFrom("acme", "ac2", "zoo", "Ωmega", "a9").map((value) => `tenant=${value}`),
  fc
    .constantFrom("203.0.113.7", "::ffff:203.0.113.7", "2001:db8::1", "2001:db8::ffff", "[2001:db8::1]:80", "nowhere")
    .map((value) => `remote_address=${value}`),
  fc
    .constantFrom("a", "b")
    .chain((id) =>
      fc.constantFrom(
        `model=m,request=${id},tokens=30`,
        `model=m,request=${id},settle=used`,
        `model=m,request=${id},settle=unknown,tokens=20`,
      ),
    ),
  fc.constantFrom("plan=gold", "plan=gold,user=ann", "plan=gold,user=bob", "unknown=x"),
);
const step = fc.record(
  {
    after: fc.constantFrom("0s", "0s", "1ms", "333us", "100ms", "1s", "7s", "1m", "26h"),
    call: fc.oneof({ weight: 4, arbitrary: call }, { weight: 1, arbitrary: fc.tuple(call, call) }),
    hits: fc.integer({ min: 1, max: 4 }),
    store: fc.constantFrom("away" as const, "back" as const, "back" as const),
  },
  { requiredKeys: ["after", "call"] },
);
const marked = fc
  .tuple(step, fc.constantFrom({}, {}, {}, { refund: true as const }, { peek: true as const }))
  .map(([one, mark]): Step => ("peek" in mark ? { after: one.after, call: one.call, ...mark } : { ...one, ...mark }));

/** A thousand of them in a full run, the same for each `seed`. */
export function generatedCases(seed: number): readonly Generated[] {
  const one = fc.record({ rules: domain, steps: fc.array(marked, { minLength: 4, maxLength: 14 }) });
  return fc.sample(one, { seed, numRuns: runs(CASES) });
}

/** As the playground has them. */
export const asTexts = ({ rules, steps }: Generated) => [stringify(rules), stringify(steps)] as const;
