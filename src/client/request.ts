// What a caller asks, in the words of this package, and its way into the protocol's message.

/** A window that has a name. */
export type Unit = "second" | "minute" | "hour" | "day" | "week" | "month" | "year";

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

const UINT32_MAX = 4_294_967_295;

/** The request as proto-loader takes it. Throws TypeError or RangeError for what the protocol can't carry. */
export function wireRequest(request: CheckRequest): object {
  const hits = request.hits ?? 1;
  checkCount(hits, "hits", UINT32_MAX);
  return {
    domain: request.domain,
    descriptors: request.descriptors.map((input) => wireDescriptor(input, request)),
    hits_addend: hits,
  };
}

// On the request 0 would mean 1, so a peek is said on each descriptor; a refund without hits gives back one.
function wireDescriptor(input: DescriptorInput, request: CheckRequest): object {
  const full: FullDescriptor = isFull(input) ? input : { entries: input };
  const isRefund = full.refund ?? request.refund ?? false;
  const isPeek = full.peek ?? (request.peek === true || (full.hits === undefined && request.hits === 0));
  const hits = isPeek ? 0 : (full.hits ?? (isRefund ? (request.hits ?? 1) : undefined));
  if (hits !== undefined) checkCount(hits, "hits", Number.MAX_SAFE_INTEGER);
  return {
    entries: pairsOf(full.entries).map(([key, value]) => ({ key, value: textOf(key, value) })),
    limit: full.override === undefined ? null : wireOverride(full.override),
    hits_addend: hits === undefined ? null : { value: hits },
    is_negative_hits: isRefund,
  };
}

// In the short form every value is text, a number or a boolean, so an object under `entries` can only be the full form.
function isFull(input: DescriptorInput): input is FullDescriptor {
  return typeof input.entries === "object" && input.entries !== null;
}

function pairsOf(entries: Entries): readonly (readonly [string, EntryValue])[] {
  return isPairs(entries) ? entries : Object.entries(entries);
}

function isPairs(entries: Entries): entries is readonly (readonly [string, EntryValue])[] {
  return Array.isArray(entries);
}

// A forgotten value must not become the text "undefined": all such callers would share one bucket.
function textOf(key: string, value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  throw new TypeError(`the entry ${key} has no value: expected text, a number or a boolean, not ${typeof value}`);
}

/** The protocol's numbers; that of a week has no name there. */
const UNIT_NUMBERS: Readonly<Record<Unit, number>> = {
  second: 1,
  minute: 2,
  hour: 3,
  day: 4,
  month: 5,
  year: 6,
  week: 7,
};
function wireOverride({ requestsPerUnit, unit }: { requestsPerUnit: number; unit: Unit }): object {
  checkCount(requestsPerUnit, "override.requestsPerUnit", UINT32_MAX);
  const number = UNIT_NUMBERS[unit];
  if (number === undefined) throw new TypeError(`override.unit is ${unit}: expected second, minute, hour, day ...`);
  return { requests_per_unit: requestsPerUnit, unit: number };
}

function checkCount(count: number, name: string, max: number): void {
  if (Number.isInteger(count) && count >= 0 && count <= max) return;
  throw new RangeError(`${name} is ${count}: expected a whole number from 0 to ${max}`);
}
