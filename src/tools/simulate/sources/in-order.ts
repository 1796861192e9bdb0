// Puts calls in the order of their times: within a log whose lines are a little late, and across several files.

import type { RecordedQuestion } from "../question.ts";

/** Most calls held back at once, for any window: some 500 bytes each, and their text. */
const HELD_MAX = 200_000;
const HELD_CHARS_MAX = 67_108_864;

type Batches = AsyncIterable<readonly RecordedQuestion[]>;

/**
 * Puts calls in order that come up to `windowUs` late: each call waits until one comes that is later by `windowUs`. Calls that
 * come even later stay out of order.
 */
export async function* sorted(batches: Batches, windowUs: number): AsyncGenerator<readonly RecordedQuestion[]> {
  const heap = new CallHeap();
  let newestUs = Number.NEGATIVE_INFINITY;
  for await (const batch of batches) {
    const ready: RecordedQuestion[] = [];
    for (const call of batch) {
      heap.push(call);
      newestUs = Math.max(newestUs, call.atUs);
      while (heap.size > HELD_MAX || heap.chars > HELD_CHARS_MAX || (heap.oldestUs ?? newestUs) < newestUs - windowUs)
        ready.push(heap.pop());
    }
    if (ready.length > 0) yield ready;
  }
  const rest: RecordedQuestion[] = [];
  while (heap.size > 0) rest.push(heap.pop());
  yield rest;
}

/** Merges streams that are each in order: the earliest call comes next. Of equal times the first file's call comes first. */
export async function* merged(sources: readonly Batches[]): AsyncGenerator<readonly RecordedQuestion[]> {
  if (sources.length === 1 && sources[0] !== undefined) {
    yield* sources[0];
    return;
  }
  const cursors = sources.map((source) => new Cursor(source[Symbol.asyncIterator]()));
  for (const cursor of cursors) await cursor.refill();
  for (;;) {
    const merging: RecordedQuestion[] = [];
    // Ends when a source has no call at hand: its next call may be earlier than those of the others.
    while (cursors.every((cursor) => cursor.isDone || cursor.next !== undefined)) {
      const earliest = earliestOf(cursors);
      if (earliest === undefined) break;
      merging.push(earliest.take());
    }
    if (merging.length > 0) yield merging;
    for (const cursor of cursors) await cursor.refill();
    if (cursors.every((cursor) => cursor.isDone)) return;
  }
}

function earliestOf(cursors: readonly Cursor[]): Cursor | undefined {
  let earliest: Cursor | undefined;
  for (const cursor of cursors) {
    if (cursor.next === undefined) continue;
    if (earliest?.next === undefined || cursor.next.atUs < earliest.next.atUs) earliest = cursor;
  }
  return earliest;
}

class Cursor {
  readonly #batches: AsyncIterator<readonly RecordedQuestion[]>;
  #batch: readonly RecordedQuestion[] = [];
  #at = 0;
  isDone = false;

  constructor(batches: AsyncIterator<readonly RecordedQuestion[]>) {
    this.#batches = batches;
  }

  get next(): RecordedQuestion | undefined {
    return this.#batch[this.#at];
  }

  take(): RecordedQuestion {
    return this.#batch[this.#at++] as RecordedQuestion;
  }

  /** Afterwards the source has a call at hand, or is done. */
  async refill(): Promise<void> {
    while (!this.isDone && this.next === undefined) {
      const { done, value } = await this.#batches.next();
      this.isDone = done === true;
      this.#batch = done === true ? [] : value;
      this.#at = 0;
    }
  }
}

interface Held {
  readonly call: RecordedQuestion;
  readonly number: number;
  readonly chars: number;
}

/** A binary heap with the earliest call on top; of equal times, the call that came first. */
class CallHeap {
  readonly #held: Held[] = [];
  #count = 0;
  /** Bytes of text that all calls hold. */
  chars = 0;

  get size(): number {
    return this.#held.length;
  }

  get oldestUs(): number | undefined {
    return this.#held[0]?.call.atUs;
  }

  push(call: RecordedQuestion): void {
    const held = this.#held;
    const one = { call, number: this.#count++, chars: charsOf(call) };
    this.chars += one.chars;
    let at = held.push(one) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(one, held[parent] as Held)) break;
      held[at] = held[parent] as Held;
      at = parent;
    }
    held[at] = one;
  }

  pop(): RecordedQuestion {
    const held = this.#held;
    const top = held[0] as Held;
    const last = held.pop() as Held;
    this.chars -= top.chars;
    if (held.length === 0) return top.call;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= held.length) break;
      if (child + 1 < held.length && isBefore(held[child + 1] as Held, held[child] as Held)) child++;
      if (!isBefore(held[child] as Held, last)) break;
      held[at] = held[child] as Held;
      at = child;
    }
    held[at] = last;
    return top.call;
  }
}

function isBefore(one: Held, other: Held): boolean {
  return one.call.atUs < other.call.atUs || (one.call.atUs === other.call.atUs && one.number < other.number);
}

function charsOf({ question }: RecordedQuestion): number {
  if (Buffer.isBuffer(question)) return question.length;
  let chars = 0;
  for (const { entries } of question.descriptors) {
    for (const [key, value] of entries) chars += key.length + value.length;
  }
  return chars;
}
