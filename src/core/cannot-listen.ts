// Why an address can't be listened on, in one sentence that names the settings to change.

import { ConfigError } from "./errors.ts";

const REASONS: readonly (readonly [code: string, reason: string])[] = [
  ["EADDRINUSE", "something else listens there"],
  ["EACCES", "this user is not allowed to"],
  ["EADDRNOTAVAIL", "this machine has no such address"],
  ["ENOTFOUND", "the host name is unknown"],
  ["Name resolution failed", "the host name is unknown"],
];

/** `what` is who wanted to listen (gRPC, HTTP), `where` the address, `settings` the variables that name it. */
export function cannotListen(what: string, where: string, settings: string, error: Error): ConfigError {
  return new ConfigError("CONFIG_SETTINGS", `${what} can't listen on ${where} (${settings}): ${listenTrouble(error)}`);
}

/** What went wrong, as the end of a sentence. */
export function listenTrouble(error: Error): string {
  return REASONS.find(([code]) => error.message.includes(code))?.[1] ?? error.message;
}
