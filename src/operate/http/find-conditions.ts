// Turns what the parts of the process report into findings: what is wrong, in words, and what to do. Pure.

import { sumOf } from "../../base/counts.ts";
import { isoTime } from "../../base/units.ts";
import { textOf } from "../../engine/domain/request.ts";
import { listed } from "../../engine/rules/limit-words.ts";
import { formatProblem } from "../../engine/rules/problems.ts";
import type { DomainRules } from "../../engine/rules/rule-set.ts";
import type { RulesFailure } from "../../rule-sources/files/rule-source.ts";
import type { Finding, Undecided } from "../condition.ts";
import type { UnmatchedEntry } from "../telemetry/domain-book.ts";
import type { DeadLimits, DeadRule } from "../telemetry/limit-watch.ts";
import type { CallCounts, StoreCounts } from "../telemetry/observers.ts";

/** What to do about a kind of trouble; `see` is the anchor of a heading in docs/operations.md. */
type Advice = Pick<Finding, "severity" | "advice" | "see">;

/** Anchor of the table of symptoms in docs/operations.md. */
const TABLE = "symptoms";

/** Advice by the part of the process that reports a trouble or a note (base/health.ts). */
const PARTS: Readonly<Record<string, Advice>> = {
  store: critical("headgatedegraded").advises(
    "Each rule's `on_store_failure` decides. Check the store and the network to it; Headgate reconnects automatically. `headgate doctor` shows what each process sees.",
  ),
  rules: critical("headgaterulesrefused").advises(
    "Calls get no decision. Fix the rules, or set RULES_DIR to their folder; fixed files are read without a restart.",
  ),
  "control plane": warning(TABLE).advises(
    "The last good rules stay active. Bring the control plane back; Headgate reconnects automatically.",
  ),
  certificates: warning("certificates-of-the-grpc-port").advises(
    "Put a valid pair into the same files; it is active within 5 seconds.",
  ),
  snapshot: warning("headgatesnapshotfails").advises(
    "Calls are still decided; a crash would lose the counts since the last snapshot.",
  ),
  "admin tokens": warning(TABLE).advises(
    "Calls are still decided. Put a token into ADMIN_TOKEN_FILE, or correct the file; it is read again within 5 seconds.",
  ),
  limits: critical("headgatelimitsstale").advises(
    "No block or exemption is known, so this process is not ready. Fix the cause; Headgate retries twice a second. LIMITS_CACHE lets it start without the store.",
  ),
  start: warning("start-and-shutdown").advises("Wait for it to start."),
  shutdown: warning("start-and-shutdown").advises("No action if the shutdown is intended."),
};

const OTHER_PART = warning(TABLE).advises("See the log.");

interface Counts {
  readonly calls: CallCounts;
  readonly store: StoreCounts;
  /** Lines of the log, and of a decision log of its own, that were lost. */
  readonly logLinesLost: number;
}

/** A counted event that should not happen. Its number follows the `words`. */
interface Mishap extends Advice {
  readonly count: (counts: Counts) => number;
  readonly words: string;
  readonly causedBy?: string;
}

const MISHAPS: Readonly<Record<string, Mishap>> = {
  degraded: {
    ...critical("headgatedegraded").advises(
      "Each rule's `on_store_failure` decides. Check the store and its latency; `headgate doctor` shows what each process sees.",
    ),
    count: ({ calls }) => calls.degradedCalls,
    causedBy: "store",
    words: "Calls answered without the store",
  },
  overloaded: {
    ...critical("headgateoverloaded").advises(
      "Check the store and CPU; add processes. `headgate top --by asked` shows who asks most.",
    ),
    count: ({ calls }) => calls.overloadedCalls,
    words: "Calls rejected because more than IN_FLIGHT_MAX, or 1,000 to /json, were under way",
  },
  internalErrors: {
    ...critical("headgateinternalerrors").advises("The log has the stack. Please report it."),
    count: ({ calls }) => calls.internalErrors,
    words: "Calls that failed because of a bug in Headgate",
  },
  unserved: {
    ...warning(TABLE).advises(
      "The log names reason and method: turn compression off, or set transport_api_version: V3.",
    ),
    count: ({ calls }) => sumOf(calls.unserved),
    words: "gRPC calls that nothing limits, because they got UNIMPLEMENTED",
  },
  loopLate: {
    ...warning("headgatelooplate").advises("Check CPU limits and other pods on the node; add processes."),
    count: ({ store }) => store.lateGroups,
    words: "Answers from the store read too late because this process was busy",
  },
  damaged: {
    ...warning("headgatebucketsdamaged").advises(
      "Something else writes to the same keys. Find out what uses that store.",
    ),
    count: ({ store }) => store.damagedBuckets,
    words: "Damaged buckets found and reset",
  },
  evicted: {
    ...warning("headgatebucketsevicted").advises(
      "Check who sends new keys: `headgate top --by asked` shows who asks most. Raise BUCKETS_MAX.",
    ),
    count: ({ store }) => store.evictedBuckets,
    words: "Buckets in use dropped to stay within BUCKETS_MAX",
  },
  logLost: {
    ...warning(TABLE).advises(
      "Find out why nobody reads standard output (or DECISION_LOG_FILE), or make room on its disk. Calls are still decided.",
    ),
    count: ({ logLinesLost }) => logLinesLost,
    words: "Lines of the log lost",
  },
  lateReports: {
    ...warning("headgatereportsnotpostpaid").advises("The log names the limit and what its rule needs."),
    count: ({ calls }) => calls.lateReports,
    words: "Calls that seem to report hits afterwards, so their limit never refuses",
  },
};

function critical(see: string) {
  return { advises: (advice: string): Advice => ({ severity: "critical", advice, see }) };
}

function warning(see: string) {
  return { advises: (advice: string): Advice => ({ severity: "warning", advice, see }) };
}

/** What the parts of the process report. */
export interface ProcessFacts {
  /** Reports by part, as on /readyz: `troubles` keep the process from being ready, `notes` do not. */
  readonly troubles: ReadonlyMap<string, string>;
  readonly notes: ReadonlyMap<string, string>;
  /** Breakers that are not closed: their state by the name of the server. */
  readonly breakers: ReadonlyMap<string, string>;
  readonly rules: { readonly areInForce: boolean; readonly lastFailure: RulesFailure | undefined };
  /** The control plane's last set, if it was refused; the control plane got a NACK. */
  readonly planeRefusal: { readonly version: string; readonly message: string } | undefined;
  /** Undefined without TLS. Seconds until the certificate expires, and seconds of its whole validity. */
  readonly certificate: { readonly remainingSeconds: number; readonly lifetimeSeconds: number } | undefined;
  /** Why limits at run time can't be brought up to date; undefined if they are. */
  readonly limitsTrouble: string | undefined;
  /** Limits at run time that do nothing, each with the reason. */
  readonly idleLimits: readonly string[];
  /** By how many seconds the host's clock was set since the start, and how long ago. */
  readonly clockSet: { readonly seconds: number; readonly secondsAgo: number } | undefined;
  readonly counts: Counts;
  readonly deadLimits: readonly DeadLimits[];
  /** Calls of the last day without a decision, and limits that had no say. */
  readonly undecided: { readonly rows: readonly Undecided[]; readonly limits: readonly string[] };
  /** Domains that require entries. */
  readonly requiring: readonly Pick<DomainRules, "domain" | "required" | "stats">[];
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
    ...staleLimits(facts),
    ...idleLimits(facts),
    ...setClock(facts),
    ...unmatchedFindings(facts),
    ...facts.deadLimits.map(deadFinding),
    ...incompleteFindings(facts),
    ...undecidedFinding(facts),
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
    ...critical("headgatebreakeropen").advises(
      "Limits are decided by each rule's on_store_failure until that server answers a probe.",
    ),
    id: `breaker ${server}`,
    causedBy: "store",
    says: `The breaker of ${server} is ${state}: calls don't wait for it.`,
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

function staleLimits({ limitsTrouble }: ProcessFacts): Finding[] {
  if (limitsTrouble === undefined) return [];
  return [
    {
      ...warning("headgatelimitsstale").advises(
        "Current limits stay active. Fix the cause; Headgate retries twice a second.",
      ),
      id: "runtime limits",
      causedBy: "store",
      says: `Can't update limits at run time: ${sentence(limitsTrouble)}`,
    },
  ];
}

/** Lasts an hour, so that nobody misses it. */
const CLOCK_SET_SECONDS = 3_600;

function setClock({ clockSet }: ProcessFacts): Finding[] {
  if (clockSet === undefined || clockSet.secondsAgo >= CLOCK_SET_SECONDS) return [];
  const { seconds } = clockSet;
  const words =
    seconds === 0
      ? "back to what it was at the start"
      : `${Math.abs(seconds)} s ${seconds > 0 ? "ahead" : "back"} since the start`;
  return [
    {
      ...warning(TABLE).advises(
        "Windows and ends of limits in memory follow it and keep their counts. Check the host's time synchronisation.",
      ),
      id: "clock set",
      says: `The host's clock was set: ${words}.`,
    },
  ];
}

function idleLimits({ idleLimits: idle }: ProcessFacts): Finding[] {
  if (idle.length === 0) return [];
  return [
    {
      ...warning("limits-that-do-not-bite").advises(
        "Set them again as the rules are now, or unset them; `headgate limits list` shows all.",
      ),
      id: "idle limits",
      says: "Limits at run time do nothing, because the rules changed or they can't be read.",
      details: idle,
    },
  ];
}

/** Domains whose descriptors met no rule within the last minute. */
function unmatchedFindings({ counts, grown }: ProcessFacts): Finding[] {
  return [...counts.calls.domains.entries()]
    .filter(({ domain, stats }) => grown(`unmatched ${domain}`, stats.descriptors) > 0)
    .map(unmatchedFinding);
}

function unmatchedFinding({ domain, hasRules, exampleKeys }: UnmatchedEntry): Finding {
  const keys = exampleKeys.length === 0 ? "" : ` One had the keys ${exampleKeys.join(", ")}.`;
  return {
    id: `unmatched ${domain}`,
    severity: "warning",
    says: hasRules
      ? `Descriptors of domain ${domain} match no rule and pass without a limit of their own.${keys}`
      : `Calls name domain ${domain}, which has no rules: they all pass.`,
    advice: hasRules
      ? `If that is intended, add a rule with \`rate_limit: { unlimited: true }\`; if not, ${explainCommand(domain)} shows why.`
      : "Compare `domain` in Envoy's filter with the rule files.",
    see: hasRules ? TABLE : "headgatedomainunknown",
  };
}

/** To copy into a shell; names that it would read otherwise are left out. */
function explainCommand(domain: string): string {
  return `\`headgate explain${/^[\w.-]+$/.test(domain) ? ` --domain ${domain}` : ""} KEY=VALUE\``;
}

function deadFinding({ domain, count, rules }: DeadLimits): Finding {
  const more = count > rules.length ? [`and ${count - rules.length} more`] : [];
  return {
    ...warning("headgatedeadlimits").advises(
      `Compare with what callers send; ${explainCommand(domain)} shows what matches. If a rule is meant for rare calls, give it \`rarely: true\`.`,
    ),
    id: `dead limits ${domain}`,
    // Other processes may have calls for them.
    needsAll: true,
    says: `${count === 1 ? "1 rule" : `${count} rules`} of ${domain} with limits ${count === 1 ? "matches" : "match"} no call.`,
    details: [...rules.map(deadLine), ...more],
  };
}

function deadLine({ id, where, matchedUs, sinceUs, calls, why }: DeadRule): string {
  const last = matchedUs === undefined ? `since ${isoTime(sinceUs)}` : `since the last match at ${isoTime(matchedUs)}`;
  return `${id} (${where}): matched none of ${calls.toLocaleString("en")} calls ${last}; ${why}`;
}

/** Domains some of whose calls lacked a required entry within the last minute. */
function incompleteFindings({ requiring, grown }: ProcessFacts): Finding[] {
  return requiring.flatMap(({ domain, required, stats }) => {
    const id = `incomplete ${textOf(domain)}`;
    const count = grown(id, stats.incomplete);
    if (count === 0 || required === undefined) return [];
    const policy = required.refuses ? "refuse" : "allow";
    const words = `Calls of domain ${textOf(domain)} without ${listed(required.keys)}, which it requires (on_missing: ${policy})`;
    return [{ ...INCOMPLETE, id, count, says: words }];
  });
}

const INCOMPLETE = warning("limits-that-do-not-bite").advises(
  "Find who sends them: `missing` in Envoy's access log names the entry. `require` in docs/rules-file.md says what happens to them.",
);

/** Lasts an hour after the last such call, so that nobody misses it. */
function undecidedFinding({ undecided: { rows, limits } }: ProcessFacts): Finding[] {
  const hour = rows.reduce((sum, row) => sum + row.last_hour, 0);
  const day = rows.reduce((sum, row) => sum + row.last_day, 0);
  if (hour === 0) return [];
  return [
    {
      ...warning("calls-without-a-decision").advises(
        "Limits did not hold for them. Look at the causes; `on_store_failure: local` or `deny` keeps a limit without the store.",
      ),
      id: "undecided",
      causedBy: "degraded",
      says: `Calls passed without a decision (unless the proxy refuses such calls): ${hour} in the last hour, ${day} in the last day.`,
      calls: rows,
      details: limits.length === 0 ? [] : [`limits not applied: ${limits.join(", ")}`],
    },
  ];
}

function mishapFindings({ counts, grown }: ProcessFacts): Finding[] {
  return Object.entries(MISHAPS).flatMap(([id, { words, count: countOf, ...advice }]) => {
    const count = grown(id, countOf(counts));
    return count === 0 ? [] : [{ id, ...advice, count, says: words }];
  });
}

function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
