// What is known of the keys that have a slot in a sketch: whose bucket it is, under which rule, since when it has been refused.
// One object for each key, however many sketches have it; it goes with the last of them. Text is bounded.

import type { KeyHash } from "../../core/key-hash.ts";
import { MICROS_PER_SECOND } from "../../core/units.ts";

/** A refusal later than this after the one before begins anew: a whole minute went by in which the key was not refused. */
export const QUIET_US = 60 * MICROS_PER_SECOND;

/** Which limit it is, in the words of the metrics' labels. One-byte. */
export interface RuleLabels {
  readonly domain: string;
  readonly rule: string;
  readonly limit: string;
}

/** An entry of a descriptor. One-byte. */
export interface KeyEntry {
  readonly key: string;
  readonly value: string;
}

/** How a key reads. One-byte, of bounded length. */
export interface KeyText {
  readonly key: string;
  /** The entries that it was made of, where the key alone does not tell them. */
  readonly entries: readonly KeyEntry[] | undefined;
}

/** A key that some sketch has. */
export class TrackedKey {
  readonly hash0: number;
  readonly hash1: number;
  readonly text: KeyText;
  /** Of the limit that was looked at last: several may share a bucket. */
  labels: RuleLabels;
  /** Slots and tallies that have it. */
  uses = 0;
  /** When the refusals began that have gone on since, and the last one; of no meaning before the first. */
  refusedSinceUs = Number.NEGATIVE_INFINITY;
  lastRefusedUs = Number.NEGATIVE_INFINITY;

  constructor({ keyHash, keyHash1 }: KeyHash, text: KeyText, labels: RuleLabels) {
    this.hash0 = keyHash;
    this.hash1 = keyHash1;
    this.text = text;
    this.labels = labels;
  }

  noteRefused(nowUs: number): void {
    if (nowUs - this.lastRefusedUs > QUIET_US) this.refusedSinceUs = nowUs;
    this.lastRefusedUs = nowUs;
  }
}

/** All tracked keys by their hashes. */
export class TrackedKeys {
  readonly #byHash = new Map<number, TrackedKey>();

  get size(): number {
    return this.#byHash.size;
  }

  /** The key of that hash, made if it is new, with one more use. */
  use(hash: KeyHash, readText: () => KeyText, labels: RuleLabels): TrackedKey {
    const number = numberOf(hash.keyHash, hash.keyHash1);
    let key = this.#byHash.get(number);
    if (key === undefined || key.hash1 !== hash.keyHash1) {
      key = new TrackedKey(hash, readText(), labels);
      this.#byHash.set(number, key);
    }
    key.labels = labels;
    key.uses++;
    return key;
  }

  /** One use less. */
  release(key: TrackedKey): void {
    key.uses--;
    const number = numberOf(key.hash0, key.hash1);
    if (key.uses === 0 && this.#byHash.get(number) === key) this.#byHash.delete(number);
  }
}

/** 53 bits of the hash, which a number holds. Two keys that differ in the other 11 alone take turns in the map. */
function numberOf(hash0: number, hash1: number): number {
  return hash0 * 2 ** 21 + (hash1 >>> 11);
}
