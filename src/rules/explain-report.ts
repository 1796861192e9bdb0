// What explain.ts finds, as the command line and the HTTP port show it.

import type { WrittenEntry } from "../core/request.ts";

/** An entry as people write it. */
export type AskedEntry = WrittenEntry;

/** What was found for one rule of a level. */
export interface TriedRule {
  /** `key`, `key=value`, `key=prefix:...`. */
  readonly rule: string;
  /** `file:line:column`. */
  readonly where: string;
  readonly outcome: "matched" | "passed over" | "not tried";
  readonly why: string;
}

/** What became of one entry. */
export interface EntryReport {
  readonly key: string;
  readonly value: string;
  /** The value as it was asked about, where it is no text. */
  readonly valueBase64?: string;
  readonly outcome: "matched" | "no match" | "cost" | "not reached";
  /** Rules of the level, in the order in which they are tried; at most TRIED_MAX of them. */
  readonly tried: readonly TriedRule[];
  /** Rules that `tried` leaves out. */
  readonly leftOut: number;
  readonly says: string;
}

/** A limit that the descriptor pays. */
export interface LimitReport {
  readonly id: string;
  /** Of a limit of a gateway, which has none, words made of its path. */
  readonly name: string;
  readonly algorithm: string;
  readonly amount: number;
  readonly burst: number;
  readonly windowSeconds: number;
  /** Of a calendar window, in words; its `windowSeconds` is no more than usual. */
  readonly calendar?: string;
  readonly onStoreFailure: string;
  readonly sync: string;
  /** Name of the bucket in the store. */
  readonly bucketKey: string;
  /** True if another limit of the same call replaces it, so that it is not paid. */
  readonly isReplaced: boolean;
  readonly says: string;
}

/** What is found for one descriptor. */
export interface DescriptorReport {
  readonly outcome: "limited" | "unlimited" | "no limit";
  readonly says: string;
  /** What the author of the rules or of the request may have meant; absent if nothing comes near. */
  readonly suggestion?: string;
  readonly entries: readonly EntryReport[];
  readonly rule?: {
    readonly path: string;
    readonly where: string;
    readonly kind: "ordinary" | "quota" | "shadow";
    readonly postPaid: boolean;
    /** What the descriptor does with a hold; absent under a rule without `hold`. */
    readonly hold?: "opened" | "settled";
    /** So many of what callers count make one of what the limits count; absent if both count the same. */
    readonly per?: number;
  };
  /** What one hit costs here, of a rule with `hold` one call. */
  readonly cost: number;
  readonly limits: readonly LimitReport[];
}

/** What is found for a call. */
export interface ExplainReport {
  readonly domain: string;
  /** Version and hash of the rule set asked. */
  readonly version: number;
  readonly hash: string;
  readonly says: string;
  readonly suggestion?: string;
  readonly descriptors: readonly DescriptorReport[];
  readonly globalLimit?: LimitReport;
  /** Descriptors of the domain that met no rule since the process began, and the keys of one; of a running server alone. */
  readonly unmatched?: { readonly descriptors: number; readonly exampleKeys: readonly string[] };
}
