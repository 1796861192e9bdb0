// What the server's clock shows, seen from here. Every reply carries the server's time, so every round trip is a sample;
// the shortest one of the last minute tells most.

/** A round trip: the server read `serverUs` at some moment between the two times of this process's Clock. */
interface Sample {
  readonly sentUs: number;
  readonly serverUs: number;
  readonly receivedUs: number;
}

const HALF_MINUTE_US = 30_000_000;

/** Converts deadlines of this process to the server's clock. Knows nothing until the first sample. */
export class ServerTime {
  // The shortest round trips of this half minute and of the one before.
  #current: Sample | undefined;
  #previous: Sample | undefined;
  #currentSinceUs = 0;

  /** True once a deadline can be converted. */
  get isKnown(): boolean {
    return this.#best() !== undefined;
  }

  /** Takes a sample. One that contradicts the best one means that a clock was set: all earlier ones are dropped. */
  observe(sample: Sample): void {
    const best = this.#best();
    if (
      best !== undefined &&
      (earliestOffset(sample) > latestOffset(best) || latestOffset(sample) < earliestOffset(best))
    ) {
      this.forget();
    }
    if (this.#current === undefined || sample.receivedUs - this.#currentSinceUs >= HALF_MINUTE_US) {
      const isRecent = sample.receivedUs - this.#currentSinceUs < 2 * HALF_MINUTE_US;
      this.#previous = isRecent ? this.#current : undefined;
      this.#current = sample;
      this.#currentSinceUs = sample.receivedUs;
    } else if (roundTrip(sample) <= roundTrip(this.#current)) {
      this.#current = sample;
    }
  }

  /** The latest server time that is surely not after `deadlineUs`: the uncertainty is taken off. Only once isKnown. */
  latestFor(deadlineUs: number): number {
    const best = this.#best();
    return best === undefined ? 0 : deadlineUs + earliestOffset(best);
  }

  /** What the server's clock most likely shows. Only once isKnown. */
  estimateUs(nowUs: number): number {
    const best = this.#best();
    return best === undefined ? nowUs : nowUs + Math.floor((earliestOffset(best) + latestOffset(best)) / 2);
  }

  /** Drops what is known: the next connection may lead to another server. */
  forget(): void {
    this.#current = undefined;
    this.#previous = undefined;
  }

  #best(): Sample | undefined {
    if (this.#previous === undefined || this.#current === undefined) return this.#current;
    return roundTrip(this.#current) <= roundTrip(this.#previous) ? this.#current : this.#previous;
  }
}

function roundTrip(sample: Sample): number {
  return sample.receivedUs - sample.sentUs;
}

function earliestOffset(sample: Sample): number {
  return sample.serverUs - sample.receivedUs;
}

function latestOffset(sample: Sample): number {
  return sample.serverUs - sample.sentUs;
}
