// A key of GET /top, and how it is called.

import { plural } from "./words.mjs";

/**
 * @typedef {object} TopKey
 * @property {string} domain
 * @property {string} rule as metrics name it; empty for the global limit
 * @property {string} limit its name, where it has one
 * @property {string} key the name of its bucket
 * @property {readonly { key: string, value?: string, value_base64?: string }[]} [descriptor] absent where it can't be told
 * @property {number} asked
 * @property {number} refused at most
 * @property {number} refused_overcount by how much `refused` may be too high
 * @property {string | null} refused_since
 */

/**
 * @typedef {object} TopAnswer
 * @property {string} at
 * @property {number} refused refusals of all keys
 * @property {readonly TopKey[]} keys
 */

/** Whose key it is: all calls for the global limit, else its entries if they can be told, else the name of its bucket. @param {TopKey} key */
export function keyWords({ rule, domain, descriptor, key }) {
  if (rule === "") return `all calls of ${domain}`;
  if (descriptor === undefined || descriptor.length === 0) return key;
  return descriptor.map((entry) => `${entry.key}=${entry.value ?? `(bytes) ${entry.value_base64}`}`).join(",");
}

/** @param {TopKey} key */
export function ruleWords({ domain, rule, limit }) {
  if (rule === "") return `the domain's global limit`;
  return `rule ${rule}${limit === "" ? "" : ` (${limit})`} of ${domain}`;
}

/** The least part of all refusals that a key must have to be named as the one refused most. */
const STANDS_OUT = 0.01;

/** The key that is refused most; undefined if none has a part of all refusals that is worth a word. @param {TopAnswer} answer */
export function outstandingKey({ keys, refused }) {
  const [key] = keys;
  if (key === undefined || key.refused === 0) return undefined;
  return key.refused - key.refused_overcount >= STANDS_OUT * refused ? key : undefined;
}

/** Said where no key is outstanding. @param {number} refusals of all keys */
export function noKeyWords(refusals) {
  if (refusals === 0) return "None within the last minute.";
  return `No key stands out among ${plural(refusals, "refusal")} within the last minute.`;
}
