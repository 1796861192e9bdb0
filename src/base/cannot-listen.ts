// Says in one sentence why a server can't listen on an address, and which settings to change.

import { ConfigError } from "./errors.ts";

const REASONS: readonly (readonly [says: RegExp, reason: string])[] = [
  [/EADDRINUSE/, "the address is in use"],
  // Node also reports EACCES when the folder of a Unix socket does not exist.
  [/EACCES.* \//, "its folder does not exist, or this user may not write there"],
  [/EACCES/, "permission denied"],
  [/EADDRNOTAVAIL/, "this machine has no such address"],
  [/ENOTFOUND|Name resolution failed/, "the host name is unknown"],
];

/**
 * The error for a server (`what`: gRPC, HTTP) that can't listen on `where`; `settings` are the variables that set the
 * address.
 */
export function cannotListen(what: string, where: string, settings: string, error: Error): ConfigError {
  return new ConfigError("CONFIG_SETTINGS", `${what} can't listen on ${where} (${settings}): ${listenTrouble(error)}`);
}

/** The reason, as the end of a sentence; the error's own message if the reason is not a known one. */
export function listenTrouble(error: Error): string {
  return REASONS.find(([says]) => says.test(error.message))?.[1] ?? error.message;
}
