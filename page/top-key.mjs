// A key of GET /top, and how it is called.

/**
 * @typedef {object} TopKey
 * @property {string} domain
 * @property {string} rule as metrics name it; empty for the global limit
 * @property {string} limit its name, where it has one
 * @property {string} key the name of its bucket
 * @property {readonly { key: string, value?: string, value_base64?: string }[]} [descriptor] absent where it can't be told
 * @property {number} asked
 * @property {number} refused
 * @property {string | null} refused_since
 */

/** Whose key it is: its entries if they can be told, else the name of its bucket. @param {TopKey} key */
export function keyWords({ descriptor, key }) {
  if (descriptor === undefined || descriptor.length === 0) return key;
  return descriptor.map((entry) => `${entry.key}=${entry.value ?? `(bytes) ${entry.value_base64}`}`).join(",");
}

/** @param {TopKey} key */
export function ruleWords({ domain, rule, limit }) {
  if (rule === "") return `the global limit of ${domain}`;
  return `rule ${rule}${limit === "" ? "" : ` (${limit})`} of ${domain}`;
}
