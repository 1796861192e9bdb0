// The rules of a soak, and for each of them the most that may be granted, whatever happened: what the rule allows in the time,
// and what each event may add to that.

/** What happened in a run that may add to what is granted. */
export interface Events {
  /** From before the first call to after the last. */
  readonly seconds: number;
  /** Seconds that the store's clock was set forward, all in all; times that it was set back. */
  readonly secondsForward: number;
  readonly stepsBack: number;
  /** Times that the store lost its data. */
  readonly losses: number;
  /** Times that the store could not be reached. */
  readonly outages: number;
  readonly processes: number;
}

/** A rule that callers pay. */
export interface SoakRule {
  readonly key: string;
  /** Its part of calls. */
  readonly weight: number;
  /** Most hits that may be granted from one bucket with the store's consent. */
  readonly grantsMax: (events: Events) => number;
  /** True if the limit is on the key alone: all values together. */
  readonly isGlobal?: boolean;
  /** Values that callers use. */
  readonly values: number;
}

function bucket(rate: number, burst: number, share = 1): SoakRule["grantsMax"] {
  return ({ seconds, secondsForward, losses }) => share * burst * (1 + losses) + rate * (seconds + secondsForward);
}

function windows(amount: number, windowSeconds: number, perStepBack: number): SoakRule["grantsMax"] {
  return ({ seconds, secondsForward, stepsBack, losses }) =>
    amount * (Math.ceil((seconds + secondsForward) / windowSeconds) + 1 + losses + perStepBack * stepsBack);
}

export const SOAK_RULES: readonly SoakRule[] = [
  { key: "bucket", weight: 4, values: 3, grantsMax: bucket(10, 20) },
  { key: "sliding", weight: 3, values: 2, grantsMax: windows(30, 5, 1) },
  { key: "fixed", weight: 3, values: 2, grantsMax: windows(30, 5, 0) },
  { key: "lease", weight: 4, values: 1, grantsMax: bucket(40, 80, 1.25) },
  { key: "open", weight: 4, values: 2, grantsMax: bucket(10, 20) },
  {
    key: "local",
    weight: 3,
    values: 2,
    // Each process may grant its share again in each outage; alone on its side, it takes the whole for its share.
    grantsMax: (events) => bucket(10, 20)(events) * (1 + events.processes) + 20 * events.processes * events.outages,
  },
  { key: "shared", weight: 4, values: 50, isGlobal: true, grantsMax: bucket(30, 60) },
];

/** The rule file; `revision` changes its text and nothing that it means. */
export function rulesText(revision: number): string {
  const denying = "on_store_failure: deny";
  return `# revision ${revision}
domain: soak
descriptors:
  - { key: bucket, ${denying}, rate_limit: { tokens_per_second: 10, burst: 20 } }
  - { key: sliding, ${denying}, rate_limit: { requests_per_unit: 30, window: 5s } }
  - { key: fixed, ${denying}, rate_limit: { requests_per_unit: 30, window: 5s, algorithm: fixed_window } }
  - { key: lease, ${denying}, rate_limit: { tokens_per_second: 40, burst: 80, sync: lease } }
  - { key: open, rate_limit: { tokens_per_second: 10, burst: 20 } }
  - { key: local, on_store_failure: local, rate_limit: { tokens_per_second: 10, burst: 20 } }
  - { key: report, post_paid: true, rate_limit: { tokens_per_second: 10, burst: 20 } }
  - { key: refund, ${denying}, rate_limit: { requests_per_unit: 1000, unit: hour } }
`;
}

/** A second file, whose domain has a limit for all calls together. */
export const SHARED_RULES = `domain: shared
global_limit: { tokens_per_second: 30, burst: 60, on_store_failure: deny }
descriptors:
  - { key: shared, on_store_failure: deny, rate_limit: { requests_per_unit: 100000, unit: hour } }
`;

/** A file that is refused. */
export const BAD_RULES = "domain: soak\ndescriptors:\n  - { key: bucket, rate_limit: { requests_per_unt: 10 } }\n";
