// The result of explain.ts, as the command line and the HTTP port show it in JSON; hence the names.

/** The result for one rule of a level. */
export interface TriedRule {
  /** `key`, `key=value`, `key=prefix:...`. */
  readonly rule: string;
  /** `file:line:column`. */
  readonly where: string;
  readonly outcome: "matched" | "passed over" | "not tried";
  readonly why: string;
}

/** The result for one entry. */
export interface EntryReport {
  readonly key: string;
  readonly value: string;
  /** The value in base64, if it is no UTF-8 text. */
  readonly value_base64?: string;
  readonly outcome: "matched" | "no match" | "cost" | "not reached";
  /** Rules of the level in the order in which matching tries them; at most TRIED_MAX. */
  readonly tried: readonly TriedRule[];
  /** Number of rules that `tried` leaves out. */
  readonly left_out: number;
  readonly says: string;
}

/** A limit that the descriptor would pay. */
export interface LimitReport {
  readonly id: string;
  /** The name, or the description of a gateway's limit (gateway-name.ts); else empty. */
  readonly name: string;
  readonly algorithm: string;
  readonly amount: number;
  readonly burst: number;
  readonly window_seconds: number;
  /** The calendar in words; `window_seconds` is then only the usual length. Absent for other windows. */
  readonly calendar?: string;
  readonly on_store_failure: string;
  readonly sync: string;
  /** Key of the bucket in the store. */
  readonly bucket: string;
  /** True if another limit of the same call replaces it, so that it is not paid. */
  readonly is_replaced: boolean;
  readonly says: string;
}

/** What an operator has set for the caller (docs/runtime-limits.md). Only from a running server. */
export interface RuntimeLimitReport {
  readonly kind: string;
  /** True: exempt from the global limit, too. */
  readonly global_limit?: boolean;
  /** The caller's limits now, in words. Absent if no rule with limits matches any more, so that it does nothing. */
  readonly limits?: readonly string[] | undefined;
  /** Its end; absent: it has none. */
  readonly until?: string | undefined;
  readonly set_at: string;
  /** Names it in PUT and DELETE /limits, in microseconds. */
  readonly seen_us: number;
  /** These two only for holders of a token. */
  readonly note?: string | undefined;
  readonly who?: string | undefined;
}

/** The result for one descriptor. */
export interface DescriptorReport {
  readonly outcome: "limited" | "unlimited" | "no limit";
  readonly says: string;
  /** What the author of the rules or of the request may have meant; absent if nothing is near. */
  readonly suggestion?: string;
  readonly entries: readonly EntryReport[];
  readonly rule?: {
    readonly path: string;
    readonly where: string;
    readonly kind: "ordinary" | "quota" | "shadow";
    readonly post_paid: boolean;
    /** Whether the descriptor opens or settles a hold; absent for a rule without `hold`. */
    readonly hold?: "opened" | "settled";
    /** How many of the caller's parts make one unit of the limit; absent if 1. */
    readonly per?: number;
  };
  /** The cost of one hit; for a rule with `hold`, the estimate of one call. */
  readonly cost: number;
  readonly limits: readonly LimitReport[];
  readonly runtime_limit?: RuntimeLimitReport;
}

/** The result for a call. */
export interface ExplainReport {
  readonly domain: string;
  /** Version of the rule set. */
  readonly version: number;
  /** Hash of the rule set. */
  readonly hash: string;
  readonly says: string;
  readonly suggestion?: string;
  /** The key of an entry that the domain requires and no descriptor has. */
  readonly missing?: string;
  readonly descriptors: readonly DescriptorReport[];
  readonly global_limit?: LimitReport;
  /**
   * Only from a running server: how many descriptors of the domain met no rule since its start, and the keys of one of
   * them.
   */
  readonly unmatched?: { readonly descriptors: number; readonly example_keys: readonly string[] };
}
