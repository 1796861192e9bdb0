// How long calls wait for a server, and what its clock shows meanwhile. Pure.

/** The longest wait of a call for the store: STORE_DEADLINE, or more for calls that have the time. In microseconds. */
export interface StorePatience {
  /** Longest wait of any call, unless its own deadline is earlier. */
  readonly deadlineUs: number;
  /** Longest wait of a call whose own deadline leaves at least twice as long. */
  readonly patienceUs: number;
}

/**
 * When a call sent at `sentUs` is answered without the store. It waits for `deadlineUs`, or longer: for half of what
 * its own deadline leaves, but at most for `patienceUs`; never beyond its own deadline. All in microseconds.
 */
export function answerByUs(sentUs: number, callDeadlineUs: number, { deadlineUs, patienceUs }: StorePatience): number {
  const leftUs = callDeadlineUs - sentUs;
  return sentUs + Math.min(leftUs, Math.max(deadlineUs, Math.min(patienceUs, leftUs / 2)));
}

/** A round trip: the server read `serverUs` between `sentUs` and `receivedUs` of this process's Clock. */
interface Sample {
  readonly sentUs: number;
  readonly serverUs: number;
  readonly receivedUs: number;
}

const HALF_MINUTE_US = 30_000_000;

/**
 * Estimates the server's clock. Every reply carries the server's time, so every round trip is a sample; the shortest
 * one of the last minute is the most exact.
 */
export class ServerTime {
  // The shortest round trips of the present and of the last half minute.
  #current: Sample | undefined;
  #previous: Sample | undefined;
  #currentSinceUs = 0;

  /** Takes a sample. If it contradicts the best one, a clock was set, and all earlier samples are dropped. */
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

  /** The latest server time that is certainly not after `deadlineUs`; 0 without a sample. */
  latestFor(deadlineUs: number): number {
    const best = this.#best();
    return best === undefined ? 0 : deadlineUs + earliestOffset(best);
  }

  /** The most likely server time at `nowUs`; `nowUs` itself without a sample. */
  estimateUs(nowUs: number): number {
    const best = this.#best();
    return best === undefined ? nowUs : nowUs + Math.floor((earliestOffset(best) + latestOffset(best)) / 2);
  }

  /** Drops all samples, because the next connection may lead to another server. */
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
