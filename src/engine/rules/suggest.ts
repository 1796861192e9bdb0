// Suggests the right word for a misspelt one in a rules file.

import { nearestName } from "../base/near-name.ts";

// Words of other rate limiters, and their equivalents here.
const KNOWN_MISTAKES: ReadonlyMap<string, string> = new Map([
  ["limit", "rate_limit"],
  ["limits", "rate_limits"],
  ["ratelimit", "rate_limit"],
  ["rate", "tokens_per_second"],
  ["requests", "requests_per_unit"],
  ["requestsperunit", "requests_per_unit"],
  ["capacity", "burst"],
  ["period", "window"],
  ["unitmultiplier", "window"],
  ["interval", "window"],
  ["duration", "window"],
  ["shadow", "shadow_mode"],
  ["dryrun", "shadow_mode"],
  ["quota", "quota_mode"],
  ["hitsaddend", "cost"],
  ["weight", "cost"],
  ["failopen", "on_store_failure"],
  ["failuremode", "on_store_failure"],
  ["failclosed", "on_store_failure"],
  ["onfailure", "on_store_failure"],
  ["closed", "deny"],
  ["close", "deny"],
  ["failclose", "deny"],
  ["reject", "deny"],
  ["refuse", "deny"],
  ["block", "deny"],
  ["false", "deny"],
  ["open", "allow"],
  ["pass", "allow"],
  ["ignore", "allow"],
  ["true", "allow"],
  ["memory", "local"],
  ["fallback", "local"],
  ["rules", "descriptors"],
  ["namespace", "domain"],
  ["in", "one_of"],
  ["oneof", "one_of"],
  ["ip", "cidr"],
  ["sec", "second"],
  ["secs", "second"],
  ["s", "second"],
  ["min", "minute"],
  ["mins", "minute"],
  ["m", "minute"],
  ["h", "hour"],
  ["hr", "hour"],
  ["d", "day"],
  ["w", "week"],
  ["mo", "month"],
  ["y", "year"],
  ["tokenbucket", "token_bucket"],
  ["bucket", "token_bucket"],
  ["gcra", "token_bucket"],
  ["leakybucket", "token_bucket"],
  ["slidingwindowcounter", "sliding_window"],
  ["slidingwindowlog", "sliding_log"],
  ["fixed", "fixed_window"],
]);

/** A sentence that names the nearest of `words`, or undefined if none is near. */
export function suggest(word: string, words: Iterable<string>): string | undefined {
  const nearest = nearestWord(word, [...words]);
  return nearest === undefined ? undefined : `Did you mean '${nearest}'?`;
}

function nearestWord(word: string, words: readonly string[]): string | undefined {
  if (word.length === 0) return undefined;
  const folded = fold(word);
  const known = KNOWN_MISTAKES.get(folded);
  if (known !== undefined && words.includes(known)) return known;
  // Case, dashes and underscores do not count: tokensPerSecond is tokens_per_second.
  const foldedWords = new Map(words.map((candidate) => [fold(candidate), candidate]));
  return foldedWords.get(nearestName(folded, foldedWords.keys()) ?? "");
}

function fold(word: string): string {
  return word.toLowerCase().replace(/[^a-z0-9]/g, "");
}
