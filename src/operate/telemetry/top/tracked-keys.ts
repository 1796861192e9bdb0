// What is known of a key with a slot in a sketch: its text, its rule, and since when it has been refused. All sketches
// and tallies share one object per key, which goes with its last use. Text is bounded.

import { MICROS_PER_SECOND } from "../../../base/units.ts";
import type { KeyHash } from "../../../engine/domain/key-bytes.ts";
import type { RuleLabels } from "../stats-book.ts";

/** A refusal more than this after the last one starts a new stretch: nothing was refused for a whole minute. */
export const QUIET_US = 60 * MICROS_PER_SECOND;

/** An entry of a descriptor. One-byte text. */
export interface KeyEntry {
  readonly key: string;
  readonly value: string;
}

/** The text of a key. One-byte, bounded in length. */
export interface KeyText {
  readonly key: string;
  /** The entries that the key was made of, if the key alone does not tell them. */
  readonly entries: readonly KeyEntry[] | undefined;
  /** Under this key refusals of a blocked caller count. */
  readonly isBlocked?: true;
}

/** A key that a sketch or a tally uses. */
export class TrackedKey {
  readonly hash0: number;
  readonly hash1: number;
  readonly text: KeyText;
  /** The labels of the limit that used the key last; several limits may share a bucket. */
  labels: RuleLabels;
  /** Number of slots and tallies that use the key. */
  uses = 0;
  /** Start of the present stretch of refusals, and the last refusal; -Infinity before the first. */
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

/** All tracked keys, by hash. */
export class TrackedKeys {
  readonly #byHash = new Map<number, TrackedKey>();

  get size(): number {
    return this.#byHash.size;
  }

  /** Returns the key with this hash, made if it is new, and adds a use. */
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

  /** Removes a use. */
  release(key: TrackedKey): void {
    key.uses--;
    const number = numberOf(key.hash0, key.hash1);
    if (key.uses === 0 && this.#byHash.get(number) === key) this.#byHash.delete(number);
  }
}

/**
 * 53 bits of the hash, as many as a number holds. Two keys that differ only in the other 11 bits replace each other in
 * the map.
 */
function numberOf(hash0: number, hash1: number): number {
  return hash0 * 2 ** 21 + (hash1 >>> 11);
}
