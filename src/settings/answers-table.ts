// Settings that change decisions for all rules, and settings of headers and metadata in answers.

import { RETRY_AFTER_JITTER_MAX } from "../engine/domain/limit.ts";
import { HEADER_DIALECTS } from "./header-dialects.ts";
import { optional, setting } from "./setting.ts";
import { BOOLEAN, decimalNumber, HEADER_NAME, listOfWords } from "./value-types.ts";

export const ANSWER_SETTINGS = {
  compatibilityMode: setting("COMPATIBILITY_MODE", BOOLEAN, false).means(
    "Matches, counts and answers like envoyproxy/ratelimit, with the same counters in Redis (docs/migrating.md).",
  ),
  stopsAtOver: setting("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", BOOLEAN, false).means(
    "Under COMPATIBILITY_MODE: a call that exceeds limits charges only these. A shadow or quota rule that is over then lifts the call's other limits, as in the reference; `headgate check` says where.",
  ),
  shadowMode: setting("SHADOW_MODE", BOOLEAN, false).means("Decides and counts, but allows every call."),
  quotaMode: setting("QUOTA_MODE", BOOLEAN, false).means("Refuses a call only if all its descriptors are over limit."),
  responseHeaders: setting("RESPONSE_HEADERS", listOfWords(HEADER_DIALECTS), []).means(
    "Headers in every answer: `ratelimit` (RateLimit-Limit, -Remaining, -Reset), `structured` (RateLimit, RateLimit-Policy), `x-ratelimit` (X-RateLimit-*).",
  ),
  limitHeadersEnabled: setting("LIMIT_RESPONSE_HEADERS_ENABLED", BOOLEAN, false).means(
    "Adds `ratelimit` to RESPONSE_HEADERS.",
  ),
  limitHeader: setting("LIMIT_LIMIT_HEADER", HEADER_NAME, "RateLimit-Limit").means("Renames RateLimit-Limit."),
  remainingHeader: setting("LIMIT_REMAINING_HEADER", HEADER_NAME, "RateLimit-Remaining").means(
    "Renames RateLimit-Remaining.",
  ),
  resetHeader: setting("LIMIT_RESET_HEADER", HEADER_NAME, "RateLimit-Reset").means("Renames RateLimit-Reset."),
  retryAfterJitter: setting("RETRY_AFTER_JITTER", decimalNumber(0, RETRY_AFTER_JITTER_MAX), 0).means(
    "Maximum share of the wait added to Retry-After, the same every time for one client, unless the rule sets it.",
  ),
  responseUnitMultiplier: setting("RESPONSE_UNIT_MULTIPLIER", BOOLEAN, false).means(
    "Answers state windows such as 30 s as a number of seconds (`unit_multiplier`). Envoy 1.40 shows them; older ones show one second.",
  ),
  responseDynamicMetadata: optional("RESPONSE_DYNAMIC_METADATA", BOOLEAN).means(
    "`true` sends dynamic metadata with every answer, `false` never.",
    "with refusals and with answers that no rule decided; under COMPATIBILITY_MODE never",
  ),
};
