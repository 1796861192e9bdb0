// Errors that are no bugs of Headgate: of callers, of the environment, of rule authors. docs/errors.md explains each
// code (test/tidy/docs.test.ts compares the two lists).

/** Codes of RequestError. All become INVALID_ARGUMENT, except REQUEST_NOT_HELD, which becomes FAILED_PRECONDITION. */
export const REQUEST_ERROR_CODES = [
  "REQUEST_MALFORMED",
  "REQUEST_DOMAIN_EMPTY",
  "REQUEST_DOMAIN_TOO_LONG",
  "REQUEST_DESCRIPTORS_EMPTY",
  "REQUEST_DESCRIPTORS_TOO_MANY",
  "REQUEST_ENTRIES_TOO_MANY",
  "REQUEST_ENTRY_TOO_LONG",
  "REQUEST_OVERRIDE_UNIT",
  "REQUEST_OVERRIDE_ALGORITHM",
  "REQUEST_MATCHING",
  "REQUEST_LIMITS_TOO_MANY",
  "REQUEST_HOLD_ID",
  "REQUEST_NOT_HELD",
  "REQUEST_TOO_LARGE",
  "REQUEST_BODY",
  "REQUEST_LIMIT",
] as const;
export type RequestErrorCode = (typeof REQUEST_ERROR_CODES)[number];

/** Codes of StoreError; the limit's `on_store_failure` decides what the caller gets. */
export const STORE_ERROR_CODES = [
  "STORE_UNREACHABLE",
  "STORE_TIMEOUT",
  "STORE_TOO_LATE",
  "STORE_BREAKER_OPEN",
  "STORE_QUEUE_FULL",
  "STORE_REPLY",
  "STORE_COMMAND",
  "STORE_COUNTER",
  "STORE_LOGS_FULL",
  "STORE_HOLDS_FULL",
  "STORE_CLOSED",
] as const;
type StoreErrorCode = (typeof STORE_ERROR_CODES)[number];

/**
 * Codes in the messages of calls that this process could not decide (grpc/rls/service.ts, grpc/rls/json.ts); no error
 * class carries them.
 */
export const SERVICE_ERROR_CODES = [
  "SERVICE_NO_RULES",
  "SERVICE_OVERLOADED",
  "SERVICE_DEADLINE",
  "SERVICE_STORE_FAILED",
  "SERVICE_INTERNAL",
] as const;

/** Codes of ConfigError: settings or rule files that can't be used. */
export const CONFIG_ERROR_CODES = ["CONFIG_SETTINGS", "CONFIG_RULES", "CONFIG_RULES_DIR"] as const;
type ConfigErrorCode = (typeof CONFIG_ERROR_CODES)[number];

/** The request can't be understood or exceeds a bound. The message names what was expected and what came. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly code: RequestErrorCode;

  constructor(code: RequestErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** The store gave no usable answer. `cause` is the error of its client, if there is one. */
export class StoreError extends Error {
  override readonly name = "StoreError";
  readonly code: StoreErrorCode;
  /** True if the store may still have counted unanswered takes. */
  readonly isOutcomeUnknown: boolean;

  constructor(code: StoreErrorCode, message: string, cause?: unknown, isOutcomeUnknown = false) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.isOutcomeUnknown = isOutcomeUnknown;
  }
}

/** Settings or rule files can't be used. `problems` has one line for every mistake found. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly code: ConfigErrorCode;
  readonly problems: readonly string[];

  constructor(code: ConfigErrorCode, message: string, problems: readonly string[] = []) {
    super(message);
    this.code = code;
    this.problems = problems;
  }
}
