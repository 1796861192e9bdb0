// The settings of the service for commands that decide calls in their own memory.

import type { Settings } from "../../process/settings.ts";
import type { DecidingSettings } from "../simulate/simulated-service.ts";
import { policyOf } from "./rules-source.ts";

/** Memory bound of a run, for any recording: at most 141 MB of buckets, twice, and once more with --against. */
const BUCKETS_MAX = 1_000_000;
const LOG_BYTES_MAX = 268_435_456;

/** The settings of the service that decisions depend on, with the memory of a command. */
export function virtualSettings(settings: Settings): DecidingSettings {
  return {
    shadowMode: settings.shadowMode,
    quotaMode: settings.quotaMode,
    onStoreFailure: policyOf(settings),
    retryAfterJitter: settings.retryAfterJitter,
    nearLimitRatio: settings.nearLimitRatio,
    compatible: settings.compatibilityMode,
    stopsAtOver: settings.stopsAtOver,
    bucketsMax: BUCKETS_MAX,
    logBytesMax: LOG_BYTES_MAX,
  };
}
