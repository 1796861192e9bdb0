// A rate limit request as decoded from the wire. Objects are pooled: a LimitRequest is filled, decided and reset.
// All text is "one-byte": a string whose char codes are the bytes as sent, cut from the buffer without decoding. They are
// UTF-8 if the caller keeps to the protocol, which nothing here relies on (docs/decisions/0009-bytes-that-are-no-text.md).

import { Unit } from "./limit.ts";

/** Bounds of a request; more is INVALID_ARGUMENT. Values are long because paths are, and a refusal to count would be a hole. */
export const DOMAIN_BYTES_MAX = 1_024;
export const DESCRIPTORS_MAX = 256;
export const ENTRIES_MAX = 64;
export const ENTRY_BYTES_MAX = 65_536;

/** One aspect of a request: an ordered list of entries. */
export class Descriptor {
  entryCount = 0;
  /** Keys and values of the entries, one-byte text; only the first `entryCount` elements mean anything. */
  readonly keys: string[] = [];
  readonly values: string[] = [];
  /** The override, if `hasOverride`. `overrideUnit` is the number as sent; it may be no Unit. */
  hasOverride = false;
  overrideAmount = 0;
  overrideUnit: number = Unit.unknown;
  /** Hits of this descriptor if `hasHits`: up to 2^64, exact below 2^53. */
  hasHits = false;
  hits = 0;
  /** `is_negative_hits`: the hits are given back. */
  isRefund = false;

  addEntry(key: string, value: string): void {
    this.keys[this.entryCount] = key;
    this.values[this.entryCount] = value;
    this.entryCount++;
  }

  reset(): void {
    this.entryCount = 0;
    this.hasOverride = false;
    this.overrideAmount = 0;
    this.overrideUnit = Unit.unknown;
    this.hasHits = false;
    this.hits = 0;
    this.isRefund = false;
  }
}

/**
 * What a call asks of a hold by fields of its own, as callers of headgate.v1.Budgets do. `none`: nothing, or by entries that
 * its rule names.
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
  /** Unless it is none, the two fields below count, and there is one descriptor. */
  holdAsk: HoldAsk = HoldAsk.none;
  /** Names the hold. One-byte text, not empty. */
  holdId = "";
  /** What is to be held, 0 for the rule's default; or what was used. Up to 2^64, exact below 2^53. */
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

/** Turns one-byte text into the text that it encodes; bytes that are no UTF-8 become U+FFFD. Not for the hot path. */
export function textOf(oneByte: string): string {
  return Buffer.from(oneByte, "latin1").toString("utf8");
}

/** A copy of one-byte text that was cut out of longer text: V8 keeps all of that one for a part of it. */
export function copyOf(oneByte: string): string {
  return Buffer.from(oneByte, "latin1").toString("latin1");
}

const BEYOND_ASCII = /[\x80-\xff]/;

/** One-byte text as it may be shown: where its bytes were no UTF-8 stand those of U+FFFD. Not for the hot path. */
export function showable(oneByte: string): string {
  return BEYOND_ASCII.test(oneByte) ? oneByteOf(textOf(oneByte)) : oneByte;
}

/** An entry as people write it. A value that is no UTF-8 comes as base64; `value` then shows it. */
export interface WrittenEntry {
  readonly key: string;
  readonly value: string;
  readonly valueBase64?: string;
}

/** The value of an entry in its one-byte form. */
export function oneByteValueOf({ value, valueBase64 }: WrittenEntry): string {
  return valueBase64 === undefined ? oneByteOf(value) : Buffer.from(valueBase64, "base64").toString("latin1");
}

/** Base64 of one-byte text whose bytes are no UTF-8; undefined where they are, and text says it all. */
export function base64Unless(oneByte: string): string | undefined {
  return showable(oneByte) === oneByte ? undefined : Buffer.from(oneByte, "latin1").toString("base64");
}

/** Turns text into its one-byte form, as rules and requests hold it. */
export function oneByteOf(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}
