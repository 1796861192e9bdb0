// Turns what the parts of the process report into findings: what is wrong, in words, and what to do. Pure.

import { formatProblem } from "../../engine/rules/problems.ts";
import type { RulesFailure } from "../../rule-sources/files/rule-keeper.ts";
import type { Finding } from "../condition.ts";
import type { UnmatchedEntry } from "../telemetry/unmatched-book.ts";
import { MISHAPS, type Mishap, OTHER_PART, PARTS, TABLE } from "./advice.ts";

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
  /** Domains whose descriptors met no rule within the last minute. */
  readonly unmatched: readonly UnmatchedEntry[];
  /** How often each mishap happened in its present spell (GrowthBook); 0: not lately. */
  readonly mishaps: Readonly<Record<Mishap, number>>;
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
    ...facts.unmatched.map(unmatchedFinding),
    ...mishapFindings(facts.mishaps),
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

function unmatchedFinding({ domain, hasRules, exampleKeys }: UnmatchedEntry): Finding {
  const keys = exampleKeys.length === 0 ? "" : ` One had the keys ${exampleKeys.join(", ")}.`;
  return {
    id: `unmatched ${domain}`,
    severity: "warning",
    says: hasRules
      ? `Descriptors of domain ${domain} meet no rule and pass without a limit of their own.${keys}`
      : `Calls name domain ${domain}, which has no rules: they all pass.`,
    advice: hasRules
      ? "Explain one below. If that is intended, add a rule with `unlimited: true`."
      : "Compare `domain` in Envoy's filter with the rule files.",
    see: hasRules ? TABLE : "headgatedomainunknown",
  };
}

function mishapFindings(mishaps: ProcessFacts["mishaps"]): Finding[] {
  return (Object.keys(MISHAPS) as Mishap[]).flatMap((id) => {
    const { words, ...advice } = MISHAPS[id];
    return mishaps[id] === 0
      ? []
      : [{ id, ...advice, count: mishaps[id], says: `${words}; the last within a minute.` }];
  });
}

function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
