// Work that must not overlap itself, and of which only the newest request matters: reading a directory, writing a file.

/**
 * Runs `work` once at a time. Requests that come during a run share one more run, which begins after it with the last
 * request.
 */
export class LatestRun<T, R> {
  readonly #work: (request: T) => Promise<R>;
  #running: Promise<R> | undefined;
  #next: Promise<R> | undefined;
  #request: T | undefined;

  /** `work` must not reject. */
  constructor(work: (request: T) => Promise<R>) {
    this.#work = work;
  }

  /** Resolves to the result of a run that began after this call, with this request or a later one. */
  run(request: T): Promise<R> {
    // A caller may learn that a run has ended before the waiting request begins; its own request is the newer one.
    if (this.#running === undefined && this.#next === undefined) return this.#begin(request);
    this.#request = request;
    this.#next ??= this.#running?.then(() => {
      const latest = this.#request as T;
      this.#next = undefined;
      this.#request = undefined;
      return this.#begin(latest);
    });
    return this.#next as Promise<R>;
  }

  #begin(request: T): Promise<R> {
    this.#running = this.#work(request).finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }
}
