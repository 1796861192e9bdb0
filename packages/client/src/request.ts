// A caller's question, in the terms of this package.

import type { Unit } from "./unit.ts";

/** A value of an entry; numbers and booleans are sent as text. */
export type EntryValue = string | number | boolean;

/**
 * Entries in the order in which the rules nest them. An object keeps the order of its keys, except that keys that are
 * whole numbers come first; use pairs for those.
 */
export type Entries = Readonly<Record<string, EntryValue>> | readonly (readonly [key: string, value: EntryValue])[];

/** How a limit counts; docs/algorithms.md of Headgate compares them. */
export const ALGORITHMS = ["sliding_log", "sliding_window", "fixed_window", "token_bucket"] as const;
export type Algorithm = (typeof ALGORITHMS)[number];

/** A limit that a call brings along. */
export interface Override {
  readonly requestsPerUnit: number;
  readonly unit: Unit;
  /** Default: the service's, a sliding window. A `sliding_log` has at most 1,000 requests. */
  readonly algorithm?: Algorithm;
}

/** A descriptor with more than its entries. What it leaves out is taken from the request. */
export interface FullDescriptor {
  readonly entries: Entries;
  /** Hits that this descriptor pays; 0 is a peek. A whole number up to 2^53 - 1. */
  readonly hits?: number;
  /** True: asks whether one more hit would pass, and pays nothing. */
  readonly peek?: boolean;
  /** True: gives the hits back; never refuses. */
  readonly refund?: boolean;
  /** Replaces the rule's own limit. */
  readonly override?: Override;
}

/** The short form `{ user: "a" }`, or the full form with `entries`. */
export type DescriptorInput = Readonly<Record<string, EntryValue>> | FullDescriptor;

/** A question. Either all its limits are paid, or none. */
export interface CheckRequest {
  /** The domain of the rule file. */
  readonly domain: string;
  /** At least one; `headgate explain` tells what each matches. */
  readonly descriptors: readonly DescriptorInput[];
  /** Hits of each descriptor without its own: 1 by default; 0 is a peek. A whole number up to 2^32 - 1. */
  readonly hits?: number;
  /** `peek` and `refund` for each descriptor without its own. */
  readonly peek?: boolean;
  readonly refund?: boolean;
}

/** A question that waits for its turn. */
export interface WaitRequest extends CheckRequest {
  /** Longest wait in milliseconds, to which the time of one check may be added: 0 to 2,147,483,647. */
  readonly maxWaitMs: number;
}
