// A map of a bounded size that keeps what was used lately, without a list of uses: entries are in two generations, and
// when the younger one is full, the older one is dropped.

/** Keeps at least the `generationMax` entries that were used last, and at most twice as many. */
export class RecentMap<K, V> {
  readonly #generationMax: number;
  #younger = new Map<K, V>();
  #older: ReadonlyMap<K, V> = new Map();

  constructor(generationMax: number) {
    this.#generationMax = generationMax;
  }

  /** The value, which is no use of it: it may be dropped as if nobody had asked. */
  peek(key: K): V | undefined {
    return this.#younger.get(key) ?? this.#older.get(key);
  }

  /** The value, which is used by this. */
  get(key: K): V | undefined {
    const young = this.#younger.get(key);
    if (young !== undefined) return young;
    const old = this.#older.get(key);
    if (old !== undefined) this.set(key, old);
    return old;
  }

  set(key: K, value: V): void {
    if (this.#younger.size >= this.#generationMax && !this.#younger.has(key)) {
      this.#older = this.#younger;
      this.#younger = new Map();
    }
    this.#younger.set(key, value);
  }

  clear(): void {
    this.#younger = new Map();
    this.#older = new Map();
  }
}
