// Suggests the right word for a misspelt one in a rules file.

import { foldName, nearestName } from "../../base/near-name.ts";

// For each of our words, what other rate limiters call it, folded.
const WORDS_OF_OTHERS: ReadonlyMap<string, readonly string[]> = new Map([
  ["rate_limit", ["limit", "ratelimit"]],
  ["rate_limits", ["limits"]],
  ["tokens_per_second", ["rate"]],
  ["requests_per_unit", ["requests", "requestsperunit"]],
  ["burst", ["capacity"]],
  ["window", ["period", "unitmultiplier", "interval", "duration"]],
  ["shadow_mode", ["shadow", "dryrun"]],
  ["quota_mode", ["quota"]],
  ["cost", ["hitsaddend", "weight"]],
  ["on_store_failure", ["failopen", "failuremode", "failclosed", "onfailure"]],
  ["deny", ["closed", "close", "failclose", "reject", "refuse", "block", "false"]],
  ["allow", ["open", "pass", "ignore", "true"]],
  ["local", ["memory", "fallback"]],
  ["descriptors", ["rules"]],
  ["domain", ["namespace"]],
  ["one_of", ["in", "oneof"]],
  ["cidr", ["ip"]],
  ["second", ["sec", "secs", "s"]],
  ["minute", ["min", "mins", "m"]],
  ["hour", ["h", "hr"]],
  ["day", ["d"]],
  ["week", ["w"]],
  ["month", ["mo"]],
  ["year", ["y"]],
  ["token_bucket", ["tokenbucket", "bucket", "gcra", "leakybucket"]],
  ["sliding_window", ["slidingwindowcounter"]],
  ["sliding_log", ["slidingwindowlog"]],
  ["fixed_window", ["fixed"]],
]);

/** A sentence that names the nearest of `words`, or undefined if none is near. */
export function suggestionFor(word: string, words: Iterable<string>): string | undefined {
  const nearest = nearestWord(word, [...words]);
  return nearest === undefined ? undefined : `Did you mean '${nearest}'?`;
}

function nearestWord(word: string, words: readonly string[]): string | undefined {
  if (word.length === 0) return undefined;
  const folded = foldName(word);
  const known = words.find((candidate) => WORDS_OF_OTHERS.get(candidate)?.includes(folded));
  if (known !== undefined) return known;
  // Case, dashes and underscores do not count: tokensPerSecond is tokens_per_second.
  const foldedWords = new Map(words.map((candidate) => [foldName(candidate), candidate]));
  return foldedWords.get(nearestName(folded, foldedWords.keys()) ?? "");
}
