// The metrics of rules, and what a row of the tables of metrics is; process/app/metrics-table.ts has all others,
// docs/metrics.md explains them. A metric that envoyproxy/ratelimit has keeps its name, so that dashboards keep
// working.

/** One row of the table. */
export interface MetricRow {
  readonly name: string;
  readonly kind: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
}

interface RuleMetric extends MetricRow {
  /** Few rules have it: a series appears once its value is above 0. */
  readonly isRare: boolean;
}

/** Labels of the counters per rule. `rule` is the whole path; `key1` and `key2` are its first two elements. */
const RULE_LABELS = ["domain", "key1", "key2", "rule", "limit"] as const;

/** Metrics per rule, by field of LimitStats. They count hits, except those that count holds. */
export const RULE_METRICS = {
  totalHits: ofRule("ratelimit_service_rate_limit_total_hits").means("Hits asked for."),
  overLimit: ofRule("ratelimit_service_rate_limit_over_limit").means("Hits over the limit."),
  nearLimit: ofRule("ratelimit_service_rate_limit_near_limit").means(
    "Hits within the limit, but above NEAR_LIMIT_RATIO of it.",
  ),
  withinLimit: ofRule("ratelimit_service_rate_limit_within_limit").means("Hits within the limit."),
  shadowMode: ofRule("ratelimit_service_rate_limit_shadow_mode").means(
    "Hits over the limit that passed because of shadow mode.",
  ),
  overLimitWithLocalCache: ofRule("ratelimit_service_rate_limit_over_limit_with_local_cache").means(
    "Hits that this process refused from memory, without the store.",
  ),
  deniedUnanswered: rare("headgate_denied_unanswered_total").means(
    "Hits refused because the store did not answer and on_store_failure is deny.",
  ),
  holdsOpened: rare("headgate_hold_opened_total").means("Holds opened by calls that received the store's answer."),
  holdsLive: ofRule("headgate_hold_live", "gauge").means(
    "Holds not yet settled. An ended one counts until a call notices. With the memory store only.",
  ),
  holdsExpired: rare("headgate_hold_expired_total").means(
    "Holds that ended unsettled and were given back. Counted when a later call on the bucket notices.",
  ),
  settlements: rare("headgate_hold_settlements_total").means("Holds settled in time."),
  heldUnused: rare("headgate_hold_unused_hits_total").means("Hits held and not used."),
  usedUnheld: rare("headgate_hold_exceeded_hits_total").means("Hits used beyond what was held."),
  settledLate: rare("headgate_hold_late_settlements_total").means(
    "Settlements without a hold: it had ended or was never opened. Charged as reported.",
  ),
  settledAgain: rare("headgate_hold_repeated_settlements_total").means(
    "Settlements of holds already settled. They changed nothing.",
  ),
  guaranteed: rare("headgate_guaranteed_hits_total").means("Hits that their caller's guarantee covered."),
  borrowed: rare("headgate_borrowed_hits_total").means("Hits of callers with a guarantee that passed without it."),
  guaranteeBroken: rare("headgate_guarantee_broken_hits_total").means(
    "Hits refused although their caller's guarantee covered them: it is not kept.",
  ),
} as const;

/** The fields that the metrics show. */
export const RULE_COUNTERS = Object.keys(RULE_METRICS) as readonly (keyof typeof RULE_METRICS)[];

/** A metric of each rule. Only holds that are live can become fewer. */
function ofRule(name: string, kind: "counter" | "gauge" = "counter", isRare = false) {
  return { means: (help: string): RuleMetric => ({ name, kind, labels: RULE_LABELS, help, isRare }) };
}

function rare(name: string) {
  return ofRule(name, "counter", true);
}
