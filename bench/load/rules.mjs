// Rule files for load, by the name of what they try.

const HUGE = 4_000_000_000;
const roomy = `rate_limit: { tokens_per_second: ${HUGE}, burst: ${HUGE} }`;

export const RULES = {
  /** One rule that never refuses, so that every call pays a bucket. */
  hot: `
domain: edge
descriptors:
  - key: tenant
    ${roomy}
`,
  /** What envoyproxy/ratelimit's users write most; ten times what a key gets under the load that uses it. */
  minute: `
domain: edge
descriptors:
  - key: tenant
    rate_limit: { requests_per_unit: 1000, unit: minute }
`,
  /** Two descriptors that each pay, and the limit that every call of the domain pays. */
  two: `
domain: edge
global_limit: { requests_per_unit: ${HUGE}, unit: second }
descriptors:
  - key: tenant
    ${roomy}
    descriptors:
      - key: path
        ${roomy}
`,
  /** Nearly every call is refused. */
  refused: `
domain: edge
descriptors:
  - key: tenant
    rate_limit: { requests_per_unit: 1, unit: day }
`,
  /** The hot rule, counted under a lease. */
  lease: `
domain: edge
descriptors:
  - key: tenant
    rate_limit: { tokens_per_second: ${HUGE}, burst: ${HUGE}, sync: lease }
`,
  /** Calls hold an estimate until they are settled; nobody comes near the budget. */
  holds: `
domain: edge
descriptors:
  - key: tenant
    hold: { id: request_id, estimate: max_tokens, ttl: 60s }
    rate_limit: { tokens_per_second: 1000, burst: ${HUGE} }
`,
  /** The hot rule, in a domain that skips the entry `class` in matching and keys. */
  skipped: `
domain: edge
descriptors:
  - key: tenant
    ${roomy}
  - key: path
    cost: { entry: class }
    ${roomy}
`,
  /** The hot rule, which keeps a part for calls of high priority. */
  priority: `
domain: edge
descriptors:
  - key: tenant
    rate_limit: { tokens_per_second: ${HUGE}, burst: ${HUGE}, priority: { entry: class, high: 20% } }
`,
  /** The hot rule, whose limits the entry `class` names. */
  tiers: `
domain: edge
limits:
  low: { tokens_per_second: ${HUGE}, burst: ${HUGE} }
  high: { tokens_per_second: 3000000000, burst: ${HUGE} }
descriptors:
  - key: tenant
    tier: { entry: class, default: low }
`,
  /** A month's amount, counted in windows of 30 days and in a calendar's. */
  "window of 30 days": `
domain: edge
descriptors:
  - key: tenant
    rate_limit: { requests_per_unit: ${HUGE}, unit: month, algorithm: fixed_window }
`,
  "window of a calendar": `
domain: edge
descriptors:
  - key: tenant
    rate_limit: { requests_per_unit: ${HUGE}, window: { calendar: month, time_zone: Europe/Berlin, starts_on: 15 } }
`,
  /** A limit of the whole domain beside the hot rule, without and with a part that is kept. */
  global: `
domain: edge
global_limit: { requests_per_unit: ${HUGE}, unit: second }
descriptors:
  - key: tenant
    ${roomy}
`,
  "global priority": `
domain: edge
global_limit: { requests_per_unit: ${HUGE}, unit: second, priority: { entry: class, high: 20% } }
descriptors:
  - key: tenant
    ${roomy}
`,
  /** Eight descriptors in each call. */
  many: `
domain: edge
descriptors:
${Array.from({ length: 8 }, (_, i) => `  - key: kind_${i}\n    ${roomy}`).join("\n")}
`,
  /** As many values of one key, each with a rule of its own. */
  "10 rules": () => manyRules(10),
  "1,000 rules": () => manyRules(1_000),
  "10,000 rules": () => manyRules(10_000),
  /** As many tenants with a limit each: by a rule for each, and by one rule where calls bring their limits along. */
  "10 limits": () => manyLimits(10),
  "1,000 limits": () => manyLimits(1_000),
  "100,000 limits": () => manyLimits(100_000),
  brought: `
domain: edge
descriptors:
  - { key: tenant, rate_limit: { requests_per_unit: ${HUGE}, unit: hour } }
`,
};

function manyRules(count) {
  const rules = Array.from({ length: count }, (_, i) => `  - { key: route, value: route-${padded(i)}, ${roomy} }`);
  return `
domain: edge
descriptors:
${rules.join("\n")}
`;
}

function manyLimits(count) {
  // Each value becomes a rule with a limit of its own.
  const values = Array.from({ length: count }, (_, i) => `"${padded(i)}"`);
  return `
domain: edge
descriptors:
  - { key: tenant, match: { one_of: [${values.join(", ")}] }, rate_limit: { requests_per_unit: ${HUGE}, unit: hour } }
`;
}

// As frames.mjs writes the digits of a key.
function padded(number) {
  return String(number).padStart(7, "0");
}

/** The text of a rule file. */
export function rulesText(name) {
  const rules = RULES[name];
  if (rules === undefined) throw new Error(`expected one of ${Object.keys(RULES).join(", ")}, got ${name}`);
  return typeof rules === "function" ? rules() : rules;
}
