// A rate limit request as decoded from the wire. Objects are pooled: a LimitRequest is filled, decided and reset. All
// text is "one-byte": a string whose char codes are the bytes as sent (Latin-1), without UTF-8 decoding. The protocol
// asks for UTF-8, but nothing here relies on it (docs/decisions/0009-bytes-that-are-no-text.md).

import { Unit } from "./limit.ts";

/**
 * Bounds of a request; more is INVALID_ARGUMENT. The bound on entries is high because values hold whole paths of
 * requests.
 */
export const DOMAIN_BYTES_MAX = 1_024;
export const DESCRIPTORS_MAX = 256;
export const ENTRIES_MAX = 64;
export const ENTRY_BYTES_MAX = 65_536;

/** An ordered list of entries (key and value) that describes one aspect of a request. */
export class Descriptor {
  entryCount = 0;
  /** Keys and values of the entries, one-byte. Only the first `entryCount` elements are valid. */
  readonly keys: string[] = [];
  readonly values: string[] = [];
  /**
   * True if the descriptor brings a limit of its own (`limit`): the four fields below. `overrideUnit` may be no Unit.
   */
  hasOverride = false;
  overrideAmount = 0;
  overrideUnit: number = Unit.unknown;
  /** How many units its window has; below 0 if that isn't said, which means one. */
  overrideUnits = -1;
  /** How it counts, as rule files name it; "" if that isn't said. May be no name of an algorithm. */
  overrideAlgorithm = "";
  /** True if the descriptor has hits of its own (`hits_addend`): `hits`, up to 2^64, exact below 2^53. */
  hasHits = false;
  hits = 0;
  /** `is_negative_hits`: the hits are given back. */
  isRefund = false;

  addEntry(key: string, value: string): void {
    this.keys[this.entryCount] = key;
    this.values[this.entryCount] = value;
    this.entryCount++;
  }

  /** The value of the first entry with this key; undefined if there isn't one. One-byte. */
  value(key: string): string | undefined {
    for (let i = 0; i < this.entryCount; i++) if (this.keys[i] === key) return this.values[i];
    return undefined;
  }

  reset(): void {
    this.entryCount = 0;
    this.hasOverride = false;
    this.overrideAmount = 0;
    this.overrideUnit = Unit.unknown;
    this.overrideUnits = -1;
    this.overrideAlgorithm = "";
    this.hasHits = false;
    this.hits = 0;
    this.isRefund = false;
  }
}

/**
 * What the fields of a headgate.v1.Budgets call ask for. `none`: the call came by ShouldRateLimit, where the entries
 * that its rule names may ask for a hold.
 */
export const HoldAsk = { none: 0, reserve: 1, settle: 2 } as const;
export type HoldAsk = (typeof HoldAsk)[keyof typeof HoldAsk];

/** One call's question: may these descriptors of this domain take these hits? */
export class LimitRequest {
  /** One-byte text. */
  domain = "";
  descriptorCount = 0;
  readonly descriptors: Descriptor[] = [];
  /** Hits for every descriptor that has none of its own; 0 means 1. At most 2^32 - 1. */
  hitsAddend = 0;
  /** Unless this is `none`, the two fields below are valid and there is exactly one descriptor. */
  holdAsk: HoldAsk = HoldAsk.none;
  /** Id of the hold. One-byte, not empty. */
  holdId = "";
  /** Reserve: the amount to hold, 0 for the rule's default. Settle: the amount used. Up to 2^64, exact below 2^53. */
  holdAmount = 0;

  addDescriptor(): Descriptor {
    let descriptor = this.descriptors[this.descriptorCount];
    if (descriptor === undefined) {
      descriptor = new Descriptor();
      this.descriptors[this.descriptorCount] = descriptor;
    }
    this.descriptorCount++;
    descriptor.reset();
    return descriptor;
  }

  reset(): void {
    this.domain = "";
    this.descriptorCount = 0;
    this.hitsAddend = 0;
    this.holdAsk = HoldAsk.none;
  }
}

/** Decodes one-byte text as UTF-8; invalid bytes become U+FFFD. Not for the hot path. */
export function textOf(oneByte: string): string {
  return Buffer.from(oneByte, "latin1").toString("utf8");
}

/**
 * Copies one-byte text. For parts of longer strings that are kept: V8 keeps the whole string alive for a part of it.
 */
export function copyOf(oneByte: string): string {
  return Buffer.from(oneByte, "latin1").toString("latin1");
}

const BEYOND_ASCII = /[\x80-\xff]/;

/** One-byte text with invalid UTF-8 replaced by the bytes of U+FFFD. Not for the hot path. */
export function showable(oneByte: string): string {
  return BEYOND_ASCII.test(oneByte) ? oneByteOf(textOf(oneByte)) : oneByte;
}

/** An entry in ordinary text. `valueBase64` holds the bytes of a value that is no UTF-8; `value` then only shows it. */
export interface WrittenEntry {
  readonly key: string;
  readonly value: string;
  readonly valueBase64?: string;
}

/** The value of an entry in its one-byte form. */
export function oneByteValueOf({ value, valueBase64 }: WrittenEntry): string {
  return valueBase64 === undefined ? oneByteOf(value) : Buffer.from(valueBase64, "base64").toString("latin1");
}

/** Base64 of one-byte text that is no UTF-8; undefined if it is UTF-8. */
export function base64Unless(oneByte: string): string | undefined {
  return showable(oneByte) === oneByte ? undefined : Buffer.from(oneByte, "latin1").toString("base64");
}

/** Encodes text as UTF-8 in one-byte form. */
export function oneByteOf(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}
