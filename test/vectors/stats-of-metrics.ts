// Reads recorded counters, which have dotted names, out of the metrics page, which has labels. The names of rules are
// compared with everything but letters, digits and stars made equal, because the two escape differently.

const RULE_METRIC =
  /^ratelimit_service_rate_limit_(\w+)\{domain="((?:[^"\\]|\\.)*)",key1=.*,rule="((?:[^"\\]|\\.)*)",limit=.*\} (\S+)$/gm;
const OTHER_METRICS: Readonly<Record<string, RegExp>> = {
  config_load_success: /^ratelimit_service_config_load_success (\S+)$/m,
  config_load_error: /^ratelimit_service_config_load_error (\S+)$/m,
  global_shadow_mode: /^ratelimit_service_global_shadow_mode (\S+)$/m,
  "call.should_rate_limit.redis_error": /^ratelimit_service_should_rate_limit_error\{err_type="redis_error"\} (\S+)$/m,
  "call.should_rate_limit.service_error":
    /^ratelimit_service_should_rate_limit_error\{err_type="service_error"\} (\S+)$/m,
};

/**
 * What differs, one line each. Counters of unknown domains have one metric for all of them, without the domain's name.
 * `before` is the page as it stood before the case; loads of rules are then not compared. Empty: the service was new.
 */
export function statDifferences(recorded: Readonly<Record<string, number>>, page: string, before: string): string[] {
  const expected = new Map<string, number>();
  for (const [name, value] of Object.entries(recorded)) {
    if (before !== "" && name.startsWith("config_load")) continue;
    const common = /\.domain_not_found$/.test(name) ? "domain_not_found" : commonName(name);
    expected.set(common, (expected.get(common) ?? 0) + value);
  }
  const found = countersOf(page);
  for (const [name, value] of countersOf(before)) found.set(name, (found.get(name) ?? 0) - value);
  const names = new Set([...expected.keys(), ...found.keys()]);
  return [...names]
    .filter((name) => (expected.get(name) ?? 0) !== (found.get(name) ?? 0))
    .map((name) => `counter ${name}: expected ${expected.get(name) ?? 0}, found ${found.get(name) ?? 0}`);
}

function countersOf(page: string): Map<string, number> {
  const counters = new Map<string, number>();
  const add = (name: string, value: number) => {
    if (value !== 0) counters.set(name, (counters.get(name) ?? 0) + value);
  };
  for (const [, kind, domain, rule, value] of page.matchAll(RULE_METRIC)) {
    add(commonName(`rate_limit.${domain}.${rule}.${kind}`), Number(value));
  }
  for (const [name, pattern] of Object.entries(OTHER_METRICS))
    add(commonName(name), Number(pattern.exec(page)?.[1] ?? 0));
  add("domain_not_found", Number(/^ratelimit_service_domain_not_found (\S+)$/m.exec(page)?.[1] ?? 0));
  return counters;
}

function commonName(name: string): string {
  return name.replace(/[^A-Za-z0-9*]/g, "_");
}
