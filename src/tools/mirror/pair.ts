// What a running mirror and a replay are made of: two targets, the mirror between them, and what it finds.

import type { CompareOptions } from "./compare.ts";
import { Differences, type ValueMode } from "./differences.ts";
import { Mirror, type MirrorOptions } from "./mirror.ts";
import { makeReport } from "./report.ts";
import { Http2Target } from "./target.ts";

/** Options of `headgate mirror` and `headgate mirror replay`. */
export interface PairFlags extends CompareOptions {
  /** `host:port` of the compared target; undefined: calls are only passed on and recorded. */
  readonly compareWith?: string;
  readonly values: ValueMode;
}

interface PairOptions extends PairFlags, Omit<MirrorOptions, "answering" | "compared" | "book"> {
  /** `host:port` of the target that answers callers. */
  readonly answerFrom: string;
}

/** Longest message of a caller or of the answering target. */
export const MESSAGE_BYTES_MAX = 4_194_304;
const COMPARED_BYTES_MAX = 1_048_576;

/** Makes the parts; the targets connect when they are first asked. */
export function openPair(options: PairOptions) {
  const { answerFrom, compareWith, clock } = options;
  const answering = new Http2Target({ authority: answerFrom, messageBytesMax: MESSAGE_BYTES_MAX, clock });
  const compared =
    compareWith === undefined
      ? undefined
      : new Http2Target({ authority: compareWith, messageBytesMax: COMPARED_BYTES_MAX, clock });
  const book = new Differences(options.values);
  const mirror = new Mirror({ ...options, answering, compared, book });
  return {
    answering,
    compared,
    mirror,
    book,
    /** The report of everything so far. */
    report: () => makeReport({ ...options, mirror, book }),
    close() {
      answering.close();
      compared?.close();
    },
  };
}
