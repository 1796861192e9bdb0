// Shows the state of the store and of the memory store's snapshots on the health pages, and waits a little for the
// store at the start.

import { isoTime } from "../../base/units.ts";
import type { Snapshots } from "../../stores/memory/snapshot/snapshots.ts";
import type { AppParts } from "./app-parts.ts";

/** How often the store's state is read. */
const STORE_WATCH_MS = 250;
/** How long a start waits for the store; after that it listens without being ready. */
const STORE_START_MS = 2_000;

/**
 * Watches the store, as one of `running.watches`; resolves when the store has answered or STORE_START_MS has passed.
 * The process is not ready before the store's first answer. Later a store that is away makes it unready only with
 * ON_STORE_FAILURE=error: otherwise all calls are answered.
 */
export async function watchStore(parts: AppParts): Promise<void> {
  const { storeHealth, snapshots, health, settings, logger, running } = parts;
  let hasAnswered = false;
  let shown: string | undefined;
  const look = () => {
    const trouble = storeHealth.trouble();
    hasAnswered ||= trouble === undefined;
    const blocks = !hasAnswered || settings.onStoreFailure === "error";
    health.setTrouble("store", trouble !== undefined && blocks ? trouble : undefined);
    health.setNote("store", trouble);
    health.setNote("snapshot", snapshots?.state.trouble);
    if (trouble !== shown) {
      if (trouble === undefined) logger.info({ store: settings.backendType }, "the store answers");
      else logger.warn({ store: settings.backendType, reason: trouble }, "the store does not answer");
      shown = trouble;
    }
    return hasAnswered;
  };
  running.watches.push(setInterval(look, STORE_WATCH_MS));
  await waitForStore(look);
}

/** Resolves when `hasAnswered`, or after STORE_START_MS. */
export async function waitForStore(hasAnswered: () => boolean): Promise<void> {
  for (let waitedMs = 0; !hasAnswered() && waitedMs < STORE_START_MS; waitedMs += STORE_WATCH_MS / 5) {
    await new Promise((resolve) => setTimeout(resolve, STORE_WATCH_MS / 5));
  }
}

/** The snapshots' part of `/config`; undefined without snapshots. */
export function snapshotView(snapshots: Snapshots | undefined, file: string | undefined): object | undefined {
  if (snapshots === undefined) return undefined;
  const { beganAtUs, bytes, seconds, written, failed, refused, trouble } = snapshots.state;
  const writtenAt = beganAtUs === undefined ? null : isoTime(beganAtUs);
  return { file, written_at: writtenAt, bytes, seconds, written, failed, refused, last_error: trouble ?? null };
}
