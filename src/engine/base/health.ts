// Whether this process should receive calls, and if not, why. gRPC health and HTTP health show the same state. Workers that share
// a port show the same state too: each adds what the others report to its own.

/** What is wrong with each part, in one sentence. */
type PartNotes = ReadonlyMap<string, string>;

/** Gathers what is wrong with the parts of the process. The process serves while there is no trouble. */
export class HealthState {
  readonly #prefix: string;
  readonly #troubles = new Map<string, string>();
  readonly #notes = new Map<string, string>();
  #othersTroubles: PartNotes = new Map();
  #othersNotes: PartNotes = new Map();
  readonly #watchers = new Set<(isServing: boolean) => void>();
  readonly #ownWatchers = new Set<() => void>();

  /** `prefix` is put before the names of this process's own parts, to tell them from those of other workers. */
  constructor(prefix = "") {
    this.#prefix = prefix;
  }

  /** Reports in one sentence why a part (`rules`, `store`, `shutdown`) keeps the process from serving; undefined clears it. */
  setTrouble(part: string, reason: string | undefined): void {
    this.#tellingWatchers(() => this.#set(this.#troubles, part, reason));
  }

  /** Reports what is wrong with a part that does not keep the process from serving; undefined clears it. */
  setNote(part: string, note: string | undefined): void {
    this.#set(this.#notes, part, note);
  }

  /** Replaces what the other workers have reported. */
  setOthers(troubles: PartNotes, notes: PartNotes): void {
    this.#tellingWatchers(() => {
      this.#othersTroubles = troubles;
      this.#othersNotes = notes;
    });
  }

  /** What is wrong but does not keep the process from serving, by part; own and others'. */
  notes(): PartNotes {
    return this.#withOthers(this.#notes, this.#othersNotes);
  }

  isServing(): boolean {
    return this.#troubles.size === 0 && this.#othersTroubles.size === 0;
  }

  /** What keeps the process from serving, by part; own and others'. */
  troubles(): PartNotes {
    return this.#withOthers(this.#troubles, this.#othersTroubles);
  }

  /** What is wrong in this process alone, by part, without the prefix. */
  own(): { readonly troubles: PartNotes; readonly notes: PartNotes } {
    return { troubles: this.#troubles, notes: this.#notes };
  }

  /** Calls `watcher`, which must not throw, whenever `isServing` changes; the function returned unsubscribes it. */
  watch(watcher: (isServing: boolean) => void): () => void {
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
    };
  }

  /** Calls `watcher`, which must not throw, whenever `own` changes. */
  watchOwn(watcher: () => void): void {
    this.#ownWatchers.add(watcher);
  }

  #tellingWatchers(change: () => void): void {
    const wasServing = this.isServing();
    change();
    const isServing = this.isServing();
    if (isServing !== wasServing) for (const watcher of this.#watchers) watcher(isServing);
  }

  #set(states: Map<string, string>, part: string, text: string | undefined): void {
    if (states.get(part) === text) return;
    if (text === undefined) states.delete(part);
    else states.set(part, text);
    for (const watcher of this.#ownWatchers) watcher();
  }

  #withOthers(own: PartNotes, others: PartNotes): PartNotes {
    if (this.#prefix === "" && others.size === 0) return own;
    return new Map([...[...own].map(([part, text]) => [`${this.#prefix}${part}`, text] as const), ...others]);
  }
}
