// Puts calls in the order of their times: within a log whose lines are a little late, and across several files.

import type { RecordedQuestion } from "../question.ts";

/** Most calls held back at once, for any window: some 500 bytes each, and their text. */
const HELD_MAX = 200_000;
const HELD_CHARS_MAX = 67_108_864;

type Calls = readonly RecordedQuestion[];

/**
 * Puts calls in order that come up to `windowUs` late: each call waits until one comes that is later by `windowUs`. Calls that
 * come even later stay out of order.
 */
export async function* sorted(batches: AsyncIterable<Calls>, windowUs: number): AsyncGenerator<Calls> {
  /** In order, from `first` on. */
  const held: RecordedQuestion[] = [];
  let newestUs = 0;
  let chars = 0;
  for await (const batch of batches) {
    const ready: RecordedQuestion[] = [];
    let first = 0;
    for (const call of batch) {
      if (call.atUs < newestUs - windowUs) {
        ready.push(call);
        continue;
      }
      newestUs = Math.max(newestUs, call.atUs);
      if (call.atUs === newestUs) held.push(call);
      else held.splice(placeOf(call, held, first), 0, call);
      chars += charsOf(call);
      for (; first < held.length; first++) {
        const oldest = held[first] as RecordedQuestion;
        const hasRoom = held.length - first <= HELD_MAX && chars <= HELD_CHARS_MAX;
        if (hasRoom && oldest.atUs >= newestUs - windowUs) break;
        chars -= charsOf(oldest);
        ready.push(oldest);
      }
    }
    held.splice(0, first);
    if (ready.length > 0) yield ready;
  }
  yield held;
}

/** Where the call belongs among those from `first` on. */
function placeOf({ atUs }: RecordedQuestion, held: Calls, first: number): number {
  let low = first;
  let high = held.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((held[middle] as RecordedQuestion).atUs <= atUs) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Merges streams that are each in order: the earliest call comes next. */
export async function* merged(sources: readonly AsyncIterable<Calls>[]): AsyncGenerator<Calls> {
  if (sources.length === 1 && sources[0] !== undefined) {
    yield* sources[0];
    return;
  }
  let streams = sources.map((source) => ({
    source: source[Symbol.asyncIterator](),
    calls: [] as Calls,
    isDone: false,
  }));
  for (;;) {
    for (const stream of streams) {
      while (stream.calls.length === 0 && !stream.isDone) {
        const { done, value } = await stream.source.next();
        if (done === true) stream.isDone = true;
        else stream.calls = value;
      }
    }
    streams = streams.filter(({ isDone }) => !isDone);
    if (streams.length === 0) return;
    // No stream has a call to come that is earlier.
    const untilUs = Math.min(...streams.map(({ calls }) => latestOf(calls)));
    const next = streams.flatMap((stream) => {
      const later = stream.calls.findIndex(({ atUs }) => atUs > untilUs);
      const ready = later < 0 ? stream.calls : stream.calls.slice(0, later);
      stream.calls = stream.calls.slice(ready.length);
      return ready;
    });
    yield next.sort(byTime);
  }
}

function byTime(one: RecordedQuestion, other: RecordedQuestion): number {
  return one.atUs - other.atUs;
}

function latestOf(calls: Calls): number {
  return calls.reduce((latestUs, { atUs }) => Math.max(latestUs, atUs), 0);
}

function charsOf({ question }: RecordedQuestion): number {
  if (Buffer.isBuffer(question)) return question.length;
  let chars = 0;
  for (const { entries } of question.descriptors) {
    for (const [key, value] of entries) chars += key.length + value.length;
  }
  return chars;
}
