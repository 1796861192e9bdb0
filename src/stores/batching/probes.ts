// Finds out by takes of its own that a server is well again: a process that is not ready because of its store may get nobody's takes, which
// would show it.

import { MICROS_PER_MILLI } from "../../engine/base/units.ts";
import { OWN_LIMIT } from "../../engine/domain/own-limit.ts";
import { TakeGroup } from "../../engine/domain/take.ts";
import type { SettleListener } from "../store.ts";

/** A bucket for takes that only ask whether the server is well, and the queue of its key. */
export interface ProbeBucket {
  readonly bucketKey: string;
  readonly queue: number;
}

interface ProbesOptions {
  /** Time before each probe; the breaker's pause. */
  readonly pauseUs: number;
  /** Whether the server is in trouble, and a take could show that this is over. */
  readonly areNeeded: () => boolean;
  /** Undefined if the server has no bucket now. */
  readonly bucket: () => ProbeBucket | undefined;
  readonly take: (group: TakeGroup, then: SettleListener, queue: number) => boolean;
}

/** Sends one take after each pause for as long as they are needed. It pays, because a server that refuses writes may still answer peeks. */
export class Probes {
  readonly #options: ProbesOptions;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ProbesOptions) {
    this.#options = options;
  }

  /** To be called when the server gets into trouble, or up with trouble left. */
  begin(): void {
    // A millisecond more: a timer may be early by a part of one, and the breaker would refuse the probe.
    const ms = Math.ceil(this.#options.pauseUs / MICROS_PER_MILLI) + 1;
    this.#timer ??= setTimeout(() => this.#probe(), ms).unref();
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #probe(): void {
    this.#timer = undefined;
    const { areNeeded, bucket, take } = this.#options;
    if (!areNeeded()) return;
    const own = bucket();
    const settled = () => this.begin();
    if (own === undefined) {
      settled();
      return;
    }
    const group = new TakeGroup();
    group.add(OWN_LIMIT).bucketKey = `${own.bucketKey}:probe`;
    if (take(group, { settled }, own.queue)) settled();
  }
}
