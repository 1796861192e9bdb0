// Whether this process should receive calls, and if not, why. gRPC health and HTTP health show the same state. So do workers that
// share a port: each shows what is wrong with all of them.

/** What is wrong with each part, in one sentence. */
type PartNotes = ReadonlyMap<string, string>;

/** The part of a process or worker that is in trouble until it listens. */
export const START = "start";

/** Gathers what is wrong with the parts of the process. The process serves while there is no trouble. */
export class HealthState {
  readonly #troubles = new Map<string, string>();
  readonly #notes = new Map<string, string>();
  #shownTroubles: PartNotes = this.#troubles;
  #shownNotes: PartNotes = this.#notes;
  readonly #watchers = new Set<(isServing: boolean) => void>();
  readonly #ownWatchers = new Set<() => void>();

  /** Reports in one sentence why a part (`rules`, `store`, `shutdown`) keeps the process from serving; undefined clears it. */
  setTrouble(part: string, reason: string | undefined): void {
    this.#tellingWatchers(() => this.#set(this.#troubles, part, reason));
  }

  /** Reports what is wrong with a part that does not keep the process from serving; undefined clears it. */
  setNote(part: string, note: string | undefined): void {
    this.#set(this.#notes, part, note);
  }

  /** From now on shows what is wrong with all workers, this one included, in place of what this one says itself. */
  showAll(all: {
    readonly troubles: Readonly<Record<string, string>>;
    readonly notes: Readonly<Record<string, string>>;
  }): void {
    this.#tellingWatchers(() => {
      this.#shownTroubles = new Map(Object.entries(all.troubles));
      this.#shownNotes = new Map(Object.entries(all.notes));
    });
  }

  /** What is wrong but does not keep the process from serving, by part. */
  notes(): PartNotes {
    return this.#shownNotes;
  }

  isServing(): boolean {
    return this.#shownTroubles.size === 0;
  }

  /** What keeps the process from serving, by part. */
  troubles(): PartNotes {
    return this.#shownTroubles;
  }

  /** What is wrong with this worker alone, by part. */
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
}
