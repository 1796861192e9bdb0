// What an error of a command means for the takes in it: whether anything ran, and what the server can do for now.

/** Whether Redis itself answered with an error, so that the command is no longer under way. */
export function isReplyError(error: unknown): error is Error {
  return error instanceof Error && error.name === "ReplyError";
}

/** Whether the command never left this process. */
export function wasNeverSent(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Stream isn't writeable");
}

/** Whether Redis answers but accepts no writes for now; refusals and peeks still work. */
export function refusesWritesForNow(error: unknown): boolean {
  return isReplyError(error) && /\b(OOM|MISCONF|NOREPLICAS)\b/.test(error.message);
}

/** Whether the slot of the keys is being handed over at this moment. The server itself works. */
export function isOnTheMove(error: unknown): boolean {
  return isReplyError(error) && /^(ASK|TRYAGAIN)\b/.test(error.message);
}

/** Whether nothing has changed: the server refused the call before any of it ran, or at the script's first write. */
export function ranNothing(error: unknown): boolean {
  return isReplyError(error) && (refusesWritesForNow(error) || isReadOnlyReply(error) || UNTOUCHED.test(error.message));
}

const UNTOUCHED =
  /^(BUSY|NOSCRIPT|MOVED|ASK|TRYAGAIN|CROSSSLOT|CLUSTERDOWN|MASTERDOWN|LOADING|NOPERM|NOAUTH|ERR unknown command)\b/;

/** Whether the server is a replica that was a primary, or was taken for one. */
export function isReadOnlyReply(error: unknown): boolean {
  return isReplyError(error) && /\bREADONLY\b/.test(error.message);
}
