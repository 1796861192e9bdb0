// `require` of a domain: entries that a descriptor of each call must have.

import type { Descriptor, LimitRequest } from "../domain/request.ts";
import { type Fields, readScalars, textOfNode } from "./fields.ts";
import type { RequiredEntries } from "./rule-set.ts";

/** Most entries that a domain requires: each is looked for in every descriptor. */
const REQUIRED_MAX = 8;

/**
 * Reads `require` and `on_missing`, of a file or of its `defaults`. Undefined if absent or wrong, which is reported.
 */
export function readRequired(fields: Fields): RequiredEntries | undefined {
  const { log } = fields;
  const field = fields.given("require");
  const refuses = fields.word("on_missing", ["allow", "refuse"]) === 1;
  if (field === undefined) {
    if (fields.given("on_missing") === undefined) return undefined;
    return log.error(fields.keyAt("on_missing"), "'on_missing' has no effect without 'require'");
  }
  const keys = readScalars(field, log).map((node) => textOfNode("require", node, log) ?? "");
  if (keys.includes("")) log.error(field.value.at, "require: expected keys of entries, got an empty text");
  if (keys.length > REQUIRED_MAX)
    log.error(field.value.at, `require: expected at most ${REQUIRED_MAX} entries, got ${keys.length}`);
  return keys.length === 0 ? undefined : { keys: [...new Set(keys)], refuses };
}

/** The first required entry that no descriptor of the call has, as its key; undefined if there isn't one. */
export function missingEntry(
  { keys }: RequiredEntries,
  { descriptors, descriptorCount }: LimitRequest,
): string | undefined {
  for (let k = 0; k < keys.length; k++) {
    const key = keys[k] as string;
    let isThere = false;
    for (let i = 0; i < descriptorCount && !isThere; i++)
      isThere = (descriptors[i] as Descriptor).value(key) !== undefined;
    if (!isThere) return key;
  }
  return undefined;
}
