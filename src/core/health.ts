// Whether this process should be sent calls, and why not. One state, shown alike over gRPC and HTTP.

/** Gathers what is wrong with the parts of the process; nothing wrong means serving. */
export class HealthState {
  readonly #troubles = new Map<string, string>();
  readonly #notes = new Map<string, string>();
  readonly #watchers = new Set<(isServing: boolean) => void>();

  /** Says in one sentence what is wrong with a part (`rules`, `store`, `shutdown`); undefined takes it back. */
  setTrouble(part: string, reason: string | undefined): void {
    const wasServing = this.isServing();
    if (reason === undefined) this.#troubles.delete(part);
    else this.#troubles.set(part, reason);
    const isServing = this.isServing();
    if (isServing !== wasServing) for (const watcher of this.#watchers) watcher(isServing);
  }

  /** Says what is wrong with a part without keeping the process from serving; undefined takes it back. */
  setNote(part: string, note: string | undefined): void {
    if (note === undefined) this.#notes.delete(part);
    else this.#notes.set(part, note);
  }

  /** What is wrong but does not matter for serving, by part. */
  notes(): ReadonlyMap<string, string> {
    return this.#notes;
  }

  isServing(): boolean {
    return this.#troubles.size === 0;
  }

  /** What is wrong, by part. */
  troubles(): ReadonlyMap<string, string> {
    return this.#troubles;
  }

  /** Calls `watcher`, which must not throw, whenever `isServing` changes; returns what ends that. */
  watch(watcher: (isServing: boolean) => void): () => void {
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
    };
  }
}
