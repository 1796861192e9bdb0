// Puts calls in the order of their times: within a log whose lines are a little late, and across several files.

import type { RecordedCall } from "../../mirror/read-recording.ts";

/** Most calls held back at once, for any window: some 500 bytes each, and their messages. */
const HELD_MAX = 200_000;
const HELD_BYTES_MAX = 67_108_864;

type Calls = readonly RecordedCall[];

/**
 * Puts calls in order that come up to `windowUs` late: each call waits until one comes that is later by more than
 * `windowUs`. A call that comes even later passes at once, behind those that no longer wait.
 */
export async function* sorted(batches: AsyncIterable<Calls>, windowUs: number): AsyncGenerator<Calls> {
  const held: RecordedCall[] = [];
  let newestUs = 0;
  let bytes = 0;
  for await (const batch of batches) {
    let passed = 0;
    for (const call of batch) {
      newestUs = Math.max(newestUs, call.atUs);
      insert(held, passed, call);
      bytes += call.message.length;
      for (let next = held[passed]; next !== undefined; next = held[passed]) {
        const hasRoom = held.length - passed <= HELD_MAX && bytes <= HELD_BYTES_MAX;
        if (hasRoom && next.atUs >= newestUs - windowUs) break;
        bytes -= next.message.length;
        passed++;
      }
    }
    yield held.splice(0, passed);
  }
  yield held;
}

/** Puts the call behind all that are no later, but not before `from`. Mostly it is the last. */
function insert(held: RecordedCall[], from: number, call: RecordedCall): void {
  let at = held.length;
  while (at > from && (held[at - 1] as RecordedCall).atUs > call.atUs) at--;
  held.splice(at, 0, call);
}

/** Merges streams that are each in order: the earliest call comes next. */
export async function* merged(sources: readonly AsyncIterable<Calls>[]): AsyncGenerator<Calls> {
  const streams = new Set(sources.map((source) => ({ source: source[Symbol.asyncIterator](), calls: [] as Calls })));
  for (;;) {
    for (const stream of streams) {
      while (stream.calls.length === 0 && streams.has(stream)) {
        const { done, value } = await stream.source.next();
        if (done === true) streams.delete(stream);
        else stream.calls = value;
      }
    }
    if (streams.size === 0) return;
    // No stream has a call to come that is earlier.
    const untilUs = Math.min(...[...streams].map(({ calls }) => latestOf(calls)));
    const next = [...streams].flatMap((stream) => {
      const later = stream.calls.findIndex(({ atUs }) => atUs > untilUs);
      const ready = later < 0 ? stream.calls : stream.calls.slice(0, later);
      stream.calls = stream.calls.slice(ready.length);
      return ready;
    });
    yield streams.size === 1 ? next : next.sort(byTime);
  }
}

function byTime(one: RecordedCall, other: RecordedCall): number {
  return one.atUs - other.atUs;
}

function latestOf(calls: Calls): number {
  return calls.reduce((latestUs, { atUs }) => Math.max(latestUs, atUs), 0);
}
