// Advice for the operator's page: for each kind of trouble its severity, what to do, and the heading of docs/operations.md
// (`see`, as the heading's anchor) that says more.

import type { Severity } from "../condition.ts";

interface Advice {
  readonly severity: Severity;
  readonly advice: string;
  readonly see: string;
  readonly causedBy?: string;
}

/** Anchor of the table of all failures in docs/operations.md. */
export const TABLE = "what-fails-what-callers-see-what-to-watch";

/** Advice by the part of the process that reports a trouble or a note (engine/base/health.ts). */
export const PARTS: Readonly<Record<string, Advice>> = {
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

export const OTHER_PART: Advice = { severity: "warning", advice: "The log says more.", see: TABLE };

/** Counted events that should not happen, with their advice. `words` follows their number in a sentence. */
export const MISHAPS = {
  degraded: {
    severity: "critical",
    causedBy: "store",
    words: "calls were answered without the store",
    advice: "Each rule's `on_store_failure` decides. Check the store and its latency.",
    see: "headgatedegraded",
  },
  overloaded: {
    severity: "critical",
    words: "calls were turned away, because more are under way than IN_FLIGHT_MAX, or than 1,000 to /json",
    advice: "Look at the store and at CPU; add processes.",
    see: "headgateoverloaded",
  },
  internalErrors: {
    severity: "critical",
    words: "calls failed by a fault of Headgate itself",
    advice: "The log has the stack. Please report it.",
    see: "headgateinternalerrors",
  },
  loopLate: {
    severity: "warning",
    words: "answers of the store were read too late, because this process was busy",
    advice: "Check CPU limits and other pods on the node; add processes.",
    see: "headgatelooplate",
  },
  damaged: {
    severity: "warning",
    words: "damaged buckets were found and reset",
    advice: "Something else writes to the same keys: find out what uses that store.",
    see: "headgatebucketsdamaged",
  },
  evicted: {
    severity: "warning",
    words: "buckets that were not full were dropped to stay within BUCKETS_MAX",
    advice: "Check who sends new keys; raise BUCKETS_MAX.",
    see: "headgatebucketsevicted",
  },
  lateReports: {
    severity: "warning",
    words: "hits look like reports after the fact on a rule that is not post_paid, so that its limit never bites",
    advice: "The log names the rule: it needs post_paid: true.",
    see: "headgatereportsnotpostpaid",
  },
} as const satisfies Record<string, Advice & { readonly words: string }>;

export type Mishap = keyof typeof MISHAPS;
