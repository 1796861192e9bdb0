// The settings that decisions depend on, by their defaults: those of src/settings, which only a process can read.

import { OnStoreFailure } from "../src/engine/domain/limit.ts";
import type { DecidingSettings } from "../src/tools/simulate/simulated-service.ts";

export const COMPILING = {
  cacheKeyPrefix: "",
  mergeDomains: false,
  defaultOnStoreFailure: OnStoreFailure.allow,
  defaultRetryAfterJitter: 0,
  compatible: false,
};

export const DECIDING: DecidingSettings = {
  nearLimitRatio: 0.8,
  shadowMode: false,
  quotaMode: false,
  onStoreFailure: OnStoreFailure.allow,
  retryAfterJitter: 0,
  bucketsMax: 100_000,
  logBytesMax: 16_777_216,
  stopsAtOver: false,
  compatible: false,
};

export const HEADERS = { dialects: [], limitHeader: "", remainingHeader: "", resetHeader: "", explainsRefusals: true };
