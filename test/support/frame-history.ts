// What a peer of a fuzzer does, as plain data.

import type { Field } from "./http2-peer.ts";

/** One thing that a peer does; plain data, so that a failure can be kept. */
export type Act =
  | { readonly act: "call"; readonly size: number; readonly late: boolean }
  | { readonly act: "headers"; readonly id: number | "next"; readonly flags: number; readonly fields: readonly Field[] }
  | { readonly act: "part"; readonly size: number }
  | { readonly act: "data"; readonly id: number | "last"; readonly flags: number; readonly size: number }
  | { readonly act: "update"; readonly id: number; readonly bytes: number }
  | { readonly act: "settings"; readonly setting: number; readonly value: number }
  | { readonly act: "reset"; readonly id: number }
  | {
      readonly act: "frame";
      readonly type: number;
      readonly flags: number;
      readonly id: number;
      readonly payload: readonly number[];
    }
  | { readonly act: "raw"; readonly bytes: readonly number[] }
  | { readonly act: "reply" };

/** A peer's acts, and the sizes of the pieces in which they arrive. */
export interface FrameHistory {
  readonly acts: readonly Act[];
  readonly cuts: readonly number[];
}
