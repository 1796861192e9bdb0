// Whether this process should receive calls, and if not, why. gRPC health and HTTP health show the same state.

/** What is wrong with each part, in one sentence. */
type PartNotes = ReadonlyMap<string, string>;

/** The part of a process that is in trouble until it listens. */
export const START = "start";

/** Gathers what is wrong with the parts of the process. The process serves while there is no trouble. */
export class HealthState {
  readonly #troubles = new Map<string, string>();
  readonly #notes = new Map<string, string>();
  readonly #watchers = new Set<(isServing: boolean) => void>();

  /**
   * Reports in one sentence why a part (`rules`, `store`, `shutdown`) keeps the process from serving; undefined clears
   * it.
   */
  setTrouble(part: string, reason: string | undefined): void {
    const wasServing = this.isServing();
    put(this.#troubles, part, reason);
    const isServing = this.isServing();
    if (isServing !== wasServing) for (const watcher of this.#watchers) watcher(isServing);
  }

  /** Reports what is wrong with a part that does not keep the process from serving; undefined clears it. */
  setNote(part: string, note: string | undefined): void {
    put(this.#notes, part, note);
  }

  /** What is wrong but does not keep the process from serving, by part. */
  notes(): PartNotes {
    return this.#notes;
  }

  isServing(): boolean {
    return this.#troubles.size === 0;
  }

  /** What keeps the process from serving, by part. */
  troubles(): PartNotes {
    return this.#troubles;
  }

  /** Calls `watcher`, which must not throw, whenever `isServing` changes; the function returned unsubscribes it. */
  watch(watcher: (isServing: boolean) => void): () => void {
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
    };
  }
}

function put(states: Map<string, string>, part: string, text: string | undefined): void {
  if (text === undefined) states.delete(part);
  else states.set(part, text);
}
