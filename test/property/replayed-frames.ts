// Histories of frames that went wrong once; they run before generated ones.

import type { FrameHistory } from "../support/frame-history.ts";

/** What went wrong, and the history as the fuzzer shrank it. */
export const REPLAYED_FRAMES: readonly { readonly name: string; readonly history: FrameHistory }[] = [
  {
    name: "an answer that waits for a window when its connection ends",
    history: {
      acts: [
        { act: "settings", setting: 4, value: 0 },
        { act: "call", size: 10, late: false },
        { act: "frame", type: 0, flags: 0, id: 0, payload: [] },
      ],
      cuts: [5_000],
    },
  },
];
