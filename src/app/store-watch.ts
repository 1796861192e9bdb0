// Shows on the health pages how the store is, and waits a little for it at the start.

import type { AppParts } from "./app-parts.ts";

/** How often the store is asked whether it is in trouble. */
const STORE_WATCH_MS = 250;
/** How long a start waits for the store before it listens without being ready. */
const STORE_START_MS = 2_000;

/**
 * Watches the store for the health pages, and waits a little for it at the start. A process is not ready before the store
 * has answered once; later it is unready only if calls would get errors (ON_STORE_FAILURE=error), since all others are answered.
 */
export async function watchStore(parts: AppParts): Promise<NodeJS.Timeout> {
  const { storeHealth, health, settings, logger } = parts;
  let hasAnswered = false;
  let shown: string | undefined;
  const look = () => {
    const trouble = storeHealth.trouble();
    hasAnswered ||= trouble === undefined;
    const blocks = !hasAnswered || settings.onStoreFailure === "error";
    health.setTrouble("store", trouble !== undefined && blocks ? trouble : undefined);
    health.setNote("store", trouble);
    if (trouble !== shown) {
      if (trouble === undefined) logger.info({ store: settings.backendType }, "the store answers");
      else logger.warn({ store: settings.backendType, reason: trouble }, "the store does not answer");
      shown = trouble;
    }
    return hasAnswered;
  };
  const watch = setInterval(look, STORE_WATCH_MS);
  for (let waitedMs = 0; !look() && waitedMs < STORE_START_MS; waitedMs += STORE_WATCH_MS / 5) {
    await new Promise((resolve) => setTimeout(resolve, STORE_WATCH_MS / 5));
  }
  return watch;
}
