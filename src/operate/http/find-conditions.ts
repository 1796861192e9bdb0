// Turns what the parts of the process report into findings: what is wrong, in words, and what to do. Pure.

import { formatProblem } from "../../engine/rules/problems.ts";
import type { RulesFailure } from "../../rule-sources/files/rule-source.ts";
import type { Finding } from "../condition.ts";
import type { CallCounts, StoreCounts } from "../telemetry/observers.ts";
import type { UnmatchedEntry } from "../telemetry/unmatched-book.ts";

/** What to do about a kind of trouble; `see` is the anchor of a heading in docs/operations.md. */
type Advice = Pick<Finding, "severity" | "advice" | "see" | "causedBy">;

/** Anchor of the table of all failures in docs/operations.md. */
const TABLE = "what-fails-what-callers-see-what-to-watch";

/** Advice by the part of the process that reports a trouble or a note (engine/base/health.ts). */
const PARTS: Readonly<Record<string, Advice>> = {
  store: {
    severity: "critical",
    advice:
      "Each rule's `on_store_failure` decides. Check the store and the network to it; Headgate reconnects automatically.",
    see: "headgatedegraded",
  },
  rules: {
    severity: "critical",
    advice:
      "Calls get no decision. Fix the rules, or set RULES_DIR to their folder; fixed files are read without a restart.",
    see: "headgaterulesrefused",
  },
  "control plane": {
    severity: "warning",
    advice: "The last good rules stay active. Bring the control plane back; Headgate reconnects automatically.",
    see: TABLE,
  },
  certificates: {
    severity: "warning",
    advice: "Put a valid pair into the same files; it is active within 5 seconds.",
    see: "certificates-of-the-grpc-port",
  },
  snapshot: {
    severity: "warning",
    advice: "Calls are still decided; a crash would lose the counts since the last snapshot.",
    see: "headgatesnapshotfails",
  },
  workers: {
    severity: "warning",
    advice: "The others answer meanwhile. The log says how each one ended.",
    see: "headgateworkersdie",
  },
  start: { severity: "warning", advice: "Wait until it has started.", see: "start-and-shutdown" },
  shutdown: { severity: "warning", advice: "Nothing, if somebody asked for it.", see: "start-and-shutdown" },
};

const OTHER_PART: Advice = { severity: "warning", advice: "The log says more.", see: TABLE };

interface Counts {
  readonly calls: CallCounts;
  readonly store: StoreCounts;
}

/** Counted events that should not happen, with their advice. `words` follows their number in a sentence. */
const MISHAPS = {
  degraded: {
    count: ({ calls }) => calls.degradedCalls,
    severity: "critical",
    causedBy: "store",
    words: "calls were answered without the store",
    advice: "Each rule's `on_store_failure` decides. Check the store and its latency.",
    see: "headgatedegraded",
  },
  overloaded: {
    count: ({ calls }) => calls.overloadedCalls,
    severity: "critical",
    words: "calls were turned away, because more are under way than IN_FLIGHT_MAX, or than 1,000 to /json",
    advice: "Look at the store and at CPU; add processes.",
    see: "headgateoverloaded",
  },
  internalErrors: {
    count: ({ calls }) => calls.internalErrors,
    severity: "critical",
    words: "calls failed by a fault of Headgate itself",
    advice: "The log has the stack. Please report it.",
    see: "headgateinternalerrors",
  },
  loopLate: {
    count: ({ store }) => store.lateGroups,
    severity: "warning",
    words: "answers of the store were read too late, because this process was busy",
    advice: "Check CPU limits and other pods on the node; add processes.",
    see: "headgatelooplate",
  },
  damaged: {
    count: ({ store }) => store.damagedBuckets,
    severity: "warning",
    words: "damaged buckets were found and reset",
    advice: "Something else writes to the same keys: find out what uses that store.",
    see: "headgatebucketsdamaged",
  },
  evicted: {
    count: ({ store }) => store.evictedBuckets,
    severity: "warning",
    words: "buckets that were not full were dropped to stay within BUCKETS_MAX",
    advice: "Check who sends new keys; raise BUCKETS_MAX.",
    see: "headgatebucketsevicted",
  },
  lateReports: {
    count: ({ calls }) => calls.lateReports,
    severity: "warning",
    words: "hits look like reports after the fact on a rule that is not post_paid, so that its limit never bites",
    advice: "The log names the rule: it needs post_paid: true.",
    see: "headgatereportsnotpostpaid",
  },
} as const satisfies Record<string, Advice & { readonly words: string; readonly count: (counts: Counts) => number }>;

/** What the parts of the process report. */
export interface ProcessFacts {
  /** Reports by part, as on /readyz: `troubles` keep the process from being ready, `notes` do not. */
  readonly troubles: ReadonlyMap<string, string>;
  readonly notes: ReadonlyMap<string, string>;
  /** Breakers that are not closed: their state by the name of the server. */
  readonly breakers: ReadonlyMap<string, string>;
  readonly rules: { readonly areInForce: boolean; readonly lastFailure: RulesFailure | undefined };
  /** The control plane's last set, if it was refused; the control plane has been told (NACK). */
  readonly planeRefusal: { readonly version: string; readonly message: string } | undefined;
  /** Undefined without TLS. Seconds until the certificate expires, and seconds of its whole validity. */
  readonly certificate: { readonly remainingSeconds: number; readonly lifetimeSeconds: number } | undefined;
  readonly counts: Counts;
  /** How much a counter has grown in its present spell (GrowthBook); 0: not lately. */
  readonly grown: (id: string, count: number) => number;
}

/** Most mistakes of a rule set in one finding; /config shows all. */
const DETAILS_MAX = 20;

/** The bounds of the alert HeadgateCertificateExpires: less than a fifth of the validity, and less than two weeks. */
const EXPIRES_SOON_SHARE = 0.2;
const EXPIRES_SOON_SECONDS = 1_209_600;

/** All that is wrong, in no particular order. */
export function findConditions(facts: ProcessFacts): readonly Finding[] {
  return [
    ...partFindings(facts),
    ...[...facts.breakers].map(([server, state]) => breakerFinding(server, state)),
    ...refusedRules(facts),
    ...expiringCertificate(facts),
    ...unmatchedFindings(facts),
    ...mishapFindings(facts),
  ];
}

function partFindings({ troubles, notes, rules }: ProcessFacts): Finding[] {
  const said = new Map([...notes, ...troubles]);
  // Refused rules have a finding of their own, which names every mistake.
  if (rules.lastFailure !== undefined) said.delete("rules");
  return [...said].map(([part, says]) => ({ id: part, ...(PARTS[part] ?? OTHER_PART), says: sentence(says) }));
}

function breakerFinding(server: string, state: string): Finding {
  return {
    id: `breaker ${server}`,
    severity: "critical",
    causedBy: "store",
    says: `The breaker of ${server} is ${state}: calls don't wait for it.`,
    advice: "Limits are decided by each rule's on_store_failure until that server answers a probe.",
    see: "headgatebreakeropen",
  };
}

function refusedRules({ rules: { areInForce, lastFailure }, planeRefusal }: ProcessFacts): Finding[] {
  if (lastFailure === undefined) return [];
  const { part, message, problems } = lastFailure;
  const errors = problems.filter(({ severity }) => severity === "error");
  const lines = errors.slice(0, DETAILS_MAX).map(formatProblem);
  if (errors.length > lines.length) lines.push(`and ${errors.length - lines.length} more; /config has them all`);
  const state = areInForce ? "The previous rules stay active." : "No rules are active, so calls get no decision.";
  const refused =
    part === "files" || planeRefusal === undefined
      ? "New rules rejected"
      : `Version ${planeRefusal.version} of the control plane's rules rejected (NACK)`;
  return [
    {
      id: "rules refused",
      severity: "critical",
      says: `${refused}: ${sentence(message)} ${state}`,
      advice: "Fix them; they are read again automatically. `headgate check` finds such mistakes before they go out.",
      see: "headgaterulesrefused",
      details: lines,
    },
  ];
}

function expiringCertificate({ certificate, notes }: ProcessFacts): Finding[] {
  if (certificate === undefined) return [];
  const { remainingSeconds: left, lifetimeSeconds: whole } = certificate;
  if (left <= 0) {
    const says = "The certificate of the gRPC port has expired: callers that check it get no decision.";
    return [{ ...certificateFinding, severity: "critical", says, see: "headgatecertificateexpired" }];
  }
  if (left >= EXPIRES_SOON_SECONDS || left >= EXPIRES_SOON_SHARE * whole || notes.has("certificates")) return [];
  const hours = Math.floor(left / 3_600);
  const says = `The certificate of the gRPC port expires in ${hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} days`}.`;
  return [{ ...certificateFinding, severity: "warning", says }];
}

const certificateFinding = {
  id: "certificate expires",
  advice:
    "It should have been renewed by now: check what renews it. A new pair in the same files is active within 5 seconds.",
  see: "headgatecertificateexpires",
};

/** Domains whose descriptors met no rule in this thread within the last minute. */
function unmatchedFindings({ counts, grown }: ProcessFacts): Finding[] {
  return [...counts.calls.unmatched.entries()]
    .filter(({ domain, stats }) => grown(`unmatched ${domain}`, stats.descriptors) > 0)
    .map(unmatchedFinding);
}

function unmatchedFinding({ domain, hasRules, exampleKeys }: UnmatchedEntry): Finding {
  const keys = exampleKeys.length === 0 ? "" : ` One had the keys ${exampleKeys.join(", ")}.`;
  return {
    id: `unmatched ${domain}`,
    severity: "warning",
    says: hasRules
      ? `Descriptors of domain ${domain} meet no rule and pass without a limit of their own.${keys}`
      : `Calls name domain ${domain}, which has no rules: they all pass.`,
    advice: hasRules
      ? "Explain one below. If that is intended, add a rule with `rate_limit: { unlimited: true }`."
      : "Compare `domain` in Envoy's filter with the rule files.",
    see: hasRules ? TABLE : "headgatedomainunknown",
  };
}

function mishapFindings({ counts, grown }: ProcessFacts): Finding[] {
  return Object.entries(MISHAPS).flatMap(([id, { words, count: countOf, ...advice }]) => {
    const count = grown(id, countOf(counts));
    return count === 0 ? [] : [{ id, ...advice, count, says: `${words}; the last within a minute.` }];
  });
}

function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
