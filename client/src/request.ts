// What a caller asks, in the words of this package.

import type { Unit } from "./unit.ts";

/** A value of an entry; numbers and booleans are sent as their text. */
export type EntryValue = string | number | boolean;

/**
 * Entries in the order of the rules' nesting. An object keeps the order in which it was written, except that keys which
 * are whole numbers go first: use pairs for those.
 */
export type Entries = Readonly<Record<string, EntryValue>> | readonly (readonly [key: string, value: EntryValue])[];

/** A descriptor with more than its entries. What it leaves out is as the request says. */
export interface FullDescriptor {
  readonly entries: Entries;
  /** What this descriptor pays; 0 is a peek. A whole number up to 2^53 - 1. */
  readonly hits?: number;
  /** Asks whether one more hit would pass, and pays nothing. */
  readonly peek?: boolean;
  /** Gives the hits back; never refuses. */
  readonly refund?: boolean;
  /** A limit in place of the rule's own. */
  readonly override?: { readonly requestsPerUnit: number; readonly unit: Unit };
}

/** `{ user: "a" }` for short, or the full form with `entries`. */
export type DescriptorInput = Readonly<Record<string, EntryValue>> | FullDescriptor;

/** One question. All its limits are paid together, or none is. */
export interface CheckRequest {
  /** The domain of the rule file. */
  readonly domain: string;
  /** At least one; what each matches is told by `headgate explain`. */
  readonly descriptors: readonly DescriptorInput[];
  /** What each descriptor pays that does not say: 1 by default, 0 is a peek. A whole number up to 2^32 - 1. */
  readonly hits?: number;
  /** As on a descriptor, for each that does not say. */
  readonly peek?: boolean;
  readonly refund?: boolean;
}
