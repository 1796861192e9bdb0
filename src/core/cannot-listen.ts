// Why an address can't be listened on, in one sentence that names the settings to change.

import { ConfigError } from "./errors.ts";

const REASONS: readonly (readonly [says: RegExp, reason: string])[] = [
  [/EADDRINUSE/, "something else listens there"],
  // Node says so of a socket's folder that is not there, too.
  [/EACCES.* \//, "its folder does not exist, or this user may not write there"],
  [/EACCES/, "this user is not allowed to"],
  [/EADDRNOTAVAIL/, "this machine has no such address"],
  [/ENOTFOUND|Name resolution failed/, "the host name is unknown"],
];

/** `what` is who wanted to listen (gRPC, HTTP), `where` the address, `settings` the variables that name it. */
export function cannotListen(what: string, where: string, settings: string, error: Error): ConfigError {
  return new ConfigError("CONFIG_SETTINGS", `${what} can't listen on ${where} (${settings}): ${listenTrouble(error)}`);
}

/** What went wrong, as the end of a sentence. */
export function listenTrouble(error: Error): string {
  return REASONS.find(([says]) => says.test(error.message))?.[1] ?? error.message;
}
