// What pages and metrics show of the memory store's snapshots, which another thread may keep (process/open-memory.ts).

import { isoTime } from "../../engine/base/units.ts";
import type { SnapshotStatus } from "../../stores/memory/snapshot/snapshot-status.ts";
import type { AppParts } from "./app-parts.ts";

const LOOK_MS = 250;

/** Shows on the health pages why no snapshot can be kept, as one of `running.watches`. */
export function watchSnapshots({ snapshots, health, running }: AppParts): void {
  if (snapshots === undefined) return;
  const look = () => health.setNote("snapshot", snapshots.read().trouble);
  look();
  running.watches.push(setInterval(look, LOOK_MS).unref());
}

/** The snapshots' part of `/config`; undefined without snapshots. */
export function snapshotView(snapshots: SnapshotStatus | undefined, file: string | undefined): object | undefined {
  if (snapshots === undefined) return undefined;
  const { beganAtUs, bytes, seconds, written, failed, refused, trouble } = snapshots.read();
  const writtenAt = beganAtUs === undefined ? null : isoTime(beganAtUs);
  return { file, written_at: writtenAt, bytes, seconds, written, failed, refused, last_error: trouble ?? null };
}
