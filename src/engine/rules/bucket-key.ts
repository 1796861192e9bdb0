// Makes bucket keys. They are readable, unambiguous (test/property/bucket-key.test.ts), and stable: they contain
// neither amount nor burst nor the rule's place in the file, so editing those keeps the count. All buckets of one
// descriptor have the same Redis Cluster hash tag, the part in braces:
//
//   <prefix>{domain|key=value|key=value}|sw/60/name
//   <prefix>{domain}|global|tb/1|guarantee|key=value
//
// Text is one-byte (engine/domain/request.ts). `%`, `|`, `{`, `}`, blanks and control bytes are written as % and two
// hex digits, `=` too in keys of entries. `%#` begins the hash of a key or value. If all values of a pattern share a
// bucket, the pattern replaces the value:
//
//   %*<value with stars>     %:<kind>:<text of match>
//   %=<key of the rule>=<value with stars>, if the entry has another key

import { createHash } from "../../base/host.ts";
import { KeyBytes } from "../domain/key-bytes.ts";
import { ALGORITHM_TRAITS, type Algorithm } from "../domain/limit.ts";
import type { Descriptor } from "../domain/request.ts";
import type { DomainRules, Rule } from "./rule-set.ts";

/**
 * Longer keys and values of entries are replaced by their SHA-256, so that bucket keys stay small whatever callers
 * send.
 */
export const VALUE_BYTES_IN_KEY_MAX = 256;

/** The parts of a rule that its shared bucket key contains. */
type SharedRule = Pick<Rule, "key" | "pattern" | "patternText">;

/** Start of every bucket key of a domain; the brace stays open for the descriptor. */
export function domainKeyPrefix(cacheKeyPrefix: string, domain: string): string {
  return `${cacheKeyPrefix}{${escaped(domain)}`;
}

/**
 * End of a limit's bucket key, different for each limit of a descriptor. `window` is its seconds, or its `calendarKey`.
 */
export function limitKeySuffix(algorithm: Algorithm, window: number | string, name: string): string {
  const base = `}|${ALGORITHM_TRAITS[algorithm].key}/${window}`;
  return name === "" ? base : `${base}/${escaped(name)}`;
}

/** End of the bucket key of a `concurrent` limit, which has no window. */
export const CONCURRENT_KEY_SUFFIX = "}|concurrent";

/** Bucket key of a domain's global limit. */
export function globalBucketKey(keyPrefix: string, keySuffix: string): string {
  return `${keyPrefix}}|global${keySuffix.slice(1)}`;
}

/**
 * The entries that a bucket key was made of, one-byte, with the one that names the caller of a guarantee. Undefined if
 * the key does not contain them: a hash or a pattern replaces one, the bucket is a global limit's, or the text is no
 * bucket key.
 */
export function entriesOfBucketKey(bucketKey: string): { readonly key: string; readonly value: string }[] | undefined {
  const [, inBraces = "", caller = ""] = /^[^{]*\{([^}]*)\}(?:.*\|guarantee(\|[^|]*)$)?/.exec(bucketKey) ?? [];
  const parts = `${inBraces}${caller}`.split("|").slice(1);
  if (parts.length === 0 || parts.some((part) => UNREADABLE.test(part))) return undefined;
  return parts.map((part) => {
    const at = part.indexOf("=");
    return { key: unescaped(part.slice(0, at)), value: unescaped(part.slice(at + 1)) };
  });
}

/** A part with a hash or a pattern in place of text, or a part that is no entry. */
const UNREADABLE = /^(?:%#|[^=]*=%[#*:=]|[^=]*$)/;

function unescaped(text: string): string {
  return text.replace(/%([0-9a-f]{2})/g, (_, digits: string) => char(Number.parseInt(digits, 16)));
}

/**
 * Writes the bucket key of a descriptor without the limit's suffix. `matched` holds the rule of each entry; undefined
 * for an override, whose bucket belongs to the entries' own values.
 */
export function writeBaseKey(
  keys: KeyBytes,
  rules: DomainRules,
  descriptor: Descriptor,
  matched: readonly Rule[] | undefined,
  hashesValues: boolean,
): void {
  keys.write(rules.keyPrefix);
  let depth = 0;
  for (let i = 0; i < descriptor.entryCount; i++) {
    const entryKey = descriptor.keys[i] as string;
    if (rules.costEntries.size > 0 && rules.costEntries.has(entryKey)) continue;
    const rule = matched?.[depth++];
    if (rule?.sharesThreshold) writeSharedEntry(keys, entryKey, rule);
    else writeEntry(keys, entryKey, descriptor.values[i] as string, hashesValues);
  }
}

/** Appends one entry of a bucket key whose bucket belongs to one value. */
export function writeEntry(keys: KeyBytes, key: string, value: string, hashesValue: boolean): void {
  writeEntryKey(keys, key);
  if (hashesValue || value.length > VALUE_BYTES_IN_KEY_MAX) keys.write(hashOfValue(value));
  else writeEscaped(keys, value, SPECIAL);
}

/** Appends one entry of a bucket key whose bucket is shared by all values that the rule's pattern matches. */
export function writeSharedEntry(keys: KeyBytes, key: string, rule: SharedRule): void {
  writeEntryKey(keys, key);
  if (rule.key !== key) {
    keys.write("%=");
    writeEscaped(keys, rule.key, SPECIAL_IN_KEYS);
    keys.write("=");
  } else keys.write(isOfMatch(rule.pattern) ? "%:" : "%*");
  writeEscaped(keys, rule.patternText, SPECIAL);
}

/** The value as people and metrics may see it: hashed if `hashesValues`. An empty value is not hashed. */
export function shownValue(value: string, hashesValues: boolean): string {
  return hashesValues && value !== "" ? hashOfValue(value) : value;
}

function hashOfValue(value: string): string {
  return `%#${createHash("sha256").update(value, "latin1").digest("base64url")}`;
}

// A value with stars may look like the text of a `match`, so they have different marks. The third mark is for entries
// with another key than the rule's: a key with a star matches them, and under COMPATIBILITY_MODE key and value are
// matched as one text.
function isOfMatch({ kind }: Rule["pattern"]): boolean {
  return kind === "prefix" || kind === "suffix" || kind === "regex" || kind === "cidr";
}

function escaped(text: string): string {
  const keys = new KeyBytes();
  writeEscaped(keys, text, SPECIAL);
  return keys.textFrom(0);
}

function writeEntryKey(keys: KeyBytes, key: string): void {
  keys.write("|");
  if (key.length > VALUE_BYTES_IN_KEY_MAX) keys.write(hashOfValue(key));
  else writeEscaped(keys, key, SPECIAL_IN_KEYS);
  keys.write("=");
}

/** By byte: 1 if the byte is written as % and two hex digits. */
const SPECIAL = Uint8Array.from({ length: 256 }, (_, byte) => (byte < 0x21 || "%{|}\x7f".includes(char(byte)) ? 1 : 0));
const SPECIAL_IN_KEYS = SPECIAL.map((isSpecial, byte) => (char(byte) === "=" ? 1 : isSpecial));

function char(byte: number): string {
  return String.fromCharCode(byte);
}

function writeEscaped(keys: KeyBytes, text: string, special: Uint8Array): void {
  keys.reserve(text.length * 3);
  const { bytes } = keys;
  let at = keys.end;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (special[code] === 0) {
      bytes[at++] = code;
    } else {
      bytes[at++] = 0x25;
      bytes[at++] = HEX_DIGITS.charCodeAt(code >>> 4);
      bytes[at++] = HEX_DIGITS.charCodeAt(code & 15);
    }
  }
  keys.end = at;
}

const HEX_DIGITS = "0123456789abcdef";
