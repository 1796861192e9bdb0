// Recordings of streams: calls that hold what they may cost when they begin, and say at their end what they have used.

import fc from "fast-check";
import type { RecordedCall } from "../../src/tools/mirror/read-recording.ts";
import { messageOf } from "../../src/tools/simulate/question.ts";

const START_US = Date.UTC(2026, 0, 1) * 1_000;

/** A stream, with what becomes of its report. */
export interface RecordedStream {
  readonly id: string;
  readonly tenant: string;
  readonly atUs: number;
  readonly takesUs: number;
  /** What its first call says that it may cost; undefined: nothing. */
  readonly stated: number | undefined;
  readonly used: number;
  readonly reports: "once" | "twice" | "without a number" | "never";
}

const drawn = fc.record({
  afterUs: fc.oneof(fc.integer({ min: 0, max: 2_000_000 }), fc.integer({ min: 0, max: 40_000_000 })),
  tenant: fc.constantFrom("ann", "bob"),
  takesUs: fc.oneof(fc.integer({ min: 0, max: 20_000_000 }), fc.integer({ min: 0, max: 150_000_000 })),
  stated: fc.option(fc.integer({ min: 1, max: 60 }), { nil: undefined, freq: 2 }),
  used: fc.integer({ min: 0, max: 80 }),
  reports: fc.constantFrom<RecordedStream["reports"][]>("once", "once", "once", "twice", "without a number", "never"),
});

/** Streams of some minutes. */
export function drawnStreams(streamsMax: number): fc.Arbitrary<readonly RecordedStream[]> {
  return fc.array(drawn, { minLength: 1, maxLength: streamsMax, size: "max" }).map((streams) => {
    let atUs = START_US;
    return streams.map(({ afterUs, ...stream }, i) => {
      atUs += afterUs;
      return { ...stream, atUs, id: `r${i}` };
    });
  });
}

/** The calls of the streams in the order of their times, with the entries `request_id`, `max_tokens` and `settle`. */
export function callsOfStreams(streams: readonly RecordedStream[], domain = "llm"): RecordedCall[] {
  const calls = streams.flatMap(({ atUs, tenant, takesUs, stated, used, reports, id }) => {
    const held = [
      ["tenant", tenant],
      ["request_id", id],
      ...(stated === undefined ? [] : [["max_tokens", String(stated)] as const]),
    ] as const;
    const begins = { atUs, message: messageOf({ domain, descriptors: [{ entries: held }], hitsAddend: 0 }) };
    if (reports === "never") return [begins];
    const hits = reports === "without a number" ? undefined : used;
    const settled = { entries: [...held, ["settle", "used"] as const], hits };
    const ends = { atUs: atUs + takesUs, message: messageOf({ domain, descriptors: [settled], hitsAddend: 0 }) };
    return reports === "twice" ? [begins, ends, ends] : [begins, ends];
  });
  return calls.sort((one, other) => one.atUs - other.atUs);
}
