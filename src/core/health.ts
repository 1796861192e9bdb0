// Whether this process should be sent calls, and why not. gRPC and HTTP show this one state. Processes that share a port show one
// state together: each adds what the others report to what it finds itself.

/** What is wrong, by part, one sentence each. */
type PartNotes = ReadonlyMap<string, string>;

/** Gathers what is wrong with the parts of the process; nothing wrong means serving. */
export class HealthState {
  readonly #prefix: string;
  readonly #troubles = new Map<string, string>();
  readonly #notes = new Map<string, string>();
  #othersTroubles: PartNotes = new Map();
  #othersNotes: PartNotes = new Map();
  readonly #watchers = new Set<(isServing: boolean) => void>();
  readonly #ownWatchers = new Set<() => void>();

  /** `prefix` stands before the parts of this process where they are shown, to tell them from those of others. */
  constructor(prefix = "") {
    this.#prefix = prefix;
  }

  /** Says in one sentence what is wrong with a part (`rules`, `store`, `shutdown`); undefined takes it back. */
  setTrouble(part: string, reason: string | undefined): void {
    this.#tellingWatchers(() => this.#set(this.#troubles, part, reason));
  }

  /** Says what is wrong with a part without keeping the process from serving; undefined takes it back. */
  setNote(part: string, note: string | undefined): void {
    this.#set(this.#notes, part, note);
  }

  /** Takes over what the processes beside this one say, in place of what they said before. */
  setOthers(troubles: PartNotes, notes: PartNotes): void {
    this.#tellingWatchers(() => {
      this.#othersTroubles = troubles;
      this.#othersNotes = notes;
    });
  }

  /** What is wrong but does not matter for serving, by part. */
  notes(): PartNotes {
    return this.#withOthers(this.#notes, this.#othersNotes);
  }

  isServing(): boolean {
    return this.#troubles.size === 0 && this.#othersTroubles.size === 0;
  }

  /** What is wrong, by part. */
  troubles(): PartNotes {
    return this.#withOthers(this.#troubles, this.#othersTroubles);
  }

  /** What is wrong in this process alone, by part without prefix. */
  own(): { readonly troubles: PartNotes; readonly notes: PartNotes } {
    return { troubles: this.#troubles, notes: this.#notes };
  }

  /** Calls `watcher`, which must not throw, whenever `isServing` changes; returns what ends that. */
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
