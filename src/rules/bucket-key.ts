// Names of buckets. Readable, unambiguous (test/property/bucket-key.test.ts), and stable: neither amount nor burst nor
// the rule's place in the file is in them, so editing those keeps the count. What is kept for one descriptor carries one
// Redis Cluster hash tag, the part in braces:
//
//   <prefix>{domain|key=value|key=value}|sw/60/name
//
// Text is one-byte (core/request.ts). `%`, `|`, `{`, `}` and control bytes are written as % and two hex digits, in keys
// of entries `=` too. `%*` opens the text of a pattern whose values share a bucket, `%#` the hash of a value.

import { createHash } from "node:crypto";
import { ALGORITHM_NAMES, type Algorithm } from "../core/limit.ts";

export { hashBucketKey } from "../core/key-hash.ts";

/** Longer keys and values of entries stand in bucket keys as their SHA-256, so that these stay small whatever callers send. */
export const VALUE_BYTES_IN_KEY_MAX = 256;

const ALGORITHM_TAGS: readonly string[] = ALGORITHM_NAMES.map((name) => name.replace(/^(.)[a-z]*_(.)[a-z]*$/, "$1$2"));

/** Start of every bucket key of a domain; the brace stays open for the descriptor. */
export function domainKeyPrefix(cacheKeyPrefix: string, domain: string): string {
  return `${cacheKeyPrefix}{${escapeValue(domain)}`;
}

/** End of the bucket key of a limit: what tells the limits of one descriptor apart. */
export function limitKeySuffix(algorithm: Algorithm, windowSeconds: number, name: string): string {
  const base = `}|${ALGORITHM_TAGS[algorithm]}/${windowSeconds}`;
  return name === "" ? base : `${base}/${escapeValue(name)}`;
}

/** Bucket key of a domain's global limit. */
export function globalBucketKey(keyPrefix: string, keySuffix: string): string {
  return `${keyPrefix}}|global${keySuffix.slice(1)}`;
}

/** One entry of a bucket key whose bucket belongs to one value. */
export function entryKeyPart(key: string, value: string, hashesValue: boolean): string {
  const text = hashesValue || value.length > VALUE_BYTES_IN_KEY_MAX ? hashOf(value) : escapeValue(value);
  return `|${escapeKey(key)}=${text}`;
}

/** One entry of a bucket key whose bucket is shared by all values that a pattern matches. */
export function sharedEntryKeyPart(key: string, patternText: string): string {
  return `|${escapeKey(key)}=%*${escapeValue(patternText)}`;
}

function hashOf(value: string): string {
  return `%#${createHash("sha256").update(value, "latin1").digest("base64url")}`;
}

// Most text needs no escape: a scan that finds nothing costs no allocation.
function escapeValue(text: string): string {
  for (let i = 0; i < text.length; i++) if (isSpecial(text.charCodeAt(i))) return escapeFrom(text, false);
  return text;
}

function escapeKey(text: string): string {
  if (text.length > VALUE_BYTES_IN_KEY_MAX) return hashOf(text);
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x3d || isSpecial(code)) return escapeFrom(text, true);
  }
  return text;
}

function isSpecial(code: number): boolean {
  return code < 0x21 || code === 0x25 || code === 0x7b || code === 0x7c || code === 0x7d || code === 0x7f;
}

function escapeFrom(text: string, alsoEquals: boolean): string {
  let escaped = "";
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    const special = isSpecial(code) || (alsoEquals && code === 0x3d);
    escaped += special ? `%${code.toString(16).padStart(2, "0")}` : text.charAt(i);
  }
  return escaped;
}
