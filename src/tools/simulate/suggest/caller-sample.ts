// A number for each caller, in bounded memory. When there are too many callers, half of them are forgotten by their hash; those
// that stay are a fair sample of all.

/** Callers kept over all shapes of a run: some 100 bytes each. */
const CALLERS_MAX = 500_000;
const HASHES = 2 ** 32;

/** Says which callers are kept. All samples of a run share it, so the bound applies to all of them together. */
export class SampleShare {
  readonly #samples: CallerSample[] = [];
  readonly #callersMax: number;
  #below = HASHES;
  #callers = 0;

  constructor(callersMax = CALLERS_MAX) {
    this.#callersMax = callersMax;
  }

  /** One in so many callers is kept. */
  get oneIn(): number {
    return HASHES / this.#below;
  }

  add(sample: CallerSample): void {
    this.#samples.push(sample);
  }

  isKept(hash: number): boolean {
    return hash < this.#below;
  }

  /** A sample has grown by a caller. */
  grew(): void {
    this.#callers++;
    while (this.#callers > this.#callersMax) {
      this.#below /= 2;
      this.#callers = this.#samples.reduce((sum, sample) => sum + sample.shrink(this.#below), 0);
    }
  }
}

/** What is known about one caller. */
interface SampledCaller {
  /** The last interval with calls of this caller, and the hits in it. */
  stretch: number;
  hits: number;
  /** The most hits in any interval. */
  peak: number;
}

/** Callers of one shape. */
export class CallerSample {
  readonly #share: SampleShare;
  readonly #callers = new Map<number, SampledCaller>();

  constructor(share: SampleShare) {
    this.#share = share;
    share.add(this);
  }

  get size(): number {
    return this.#callers.size;
  }

  /** Counts hits of a caller in an interval; its peak is the most in any. */
  count(name: string, hits: number, stretch: number): void {
    const caller = this.#of(name);
    if (caller === undefined || hits === 0) return;
    if (caller.stretch !== stretch) {
      caller.stretch = stretch;
      caller.hits = 0;
    }
    caller.hits += hits;
    caller.peak = Math.max(caller.peak, caller.hits);
  }

  /** Raises a caller's peak to that number. */
  raise(name: string, peak: number): void {
    const caller = this.#of(name);
    if (caller !== undefined) caller.peak = Math.max(caller.peak, peak);
  }

  /** The caller of that name, created if needed; undefined if it is not in the sample. */
  #of(name: string): SampledCaller | undefined {
    const hash = hashOf(name, 0x811c9dc5);
    if (!this.#share.isKept(hash)) return undefined;
    const id = hash * 0x20_0000 + (hashOf(name, 0x1234567) >>> 11);
    let caller = this.#callers.get(id);
    if (caller === undefined) {
      caller = { stretch: -1, hits: 0, peak: 0 };
      this.#callers.set(id, caller);
      this.#share.grew();
    }
    return caller;
  }

  /** Forgets callers whose hash is not below the bound; returns how many are left. */
  shrink(below: number): number {
    for (const id of this.#callers.keys()) if (Math.floor(id / 0x20_0000) >= below) this.#callers.delete(id);
    return this.#callers.size;
  }

  /** The peak that at least `share` (0 to 1) of the callers do not exceed; 0 without callers. */
  peakOf(share: number): number {
    const peaks = Float64Array.from([...this.#callers.values()], ({ peak }) => peak).sort();
    return peaks[Math.max(0, Math.ceil(share * peaks.length) - 1)] ?? 0;
  }
}

// FNV-1a with the final mix of murmur3, which spreads similar names over all bits.
function hashOf(text: string, seed: number): number {
  let hash = seed;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
