// The hash by which limits at run time are found in their table; the same in all processes.

import type { RuntimeKey } from "./runtime-limit.ts";

/** The hash of a domain, with which its descriptors' hashes begin (FNV-1a; records that are found are compared too). */
export function hashOfDomain(domain: string): number {
  return hashPart(0x811c9dc5, domain);
}

/** The hash of all of a key. */
export function hashOf({ domain, entries }: RuntimeKey): number {
  return entries.reduce((hash, [key, value]) => hashPart(hashPart(hash, key), value), hashOfDomain(domain));
}

/** Adds a part of a key, with a mark for its end, and a last step that spreads high bits, which slots leave out. */
export function hashPart(before: number, text: string): number {
  let hash = before;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return Math.imul(hash ^ (hash >>> 15) ^ 0x100, 0x01000193);
}
