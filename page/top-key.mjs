// A key of GET /top, and how it is called.

/**
 * @typedef {object} TopKey
 * @property {string} domain
 * @property {string} rule as metrics name it; empty for the global limit
 * @property {string} key the name of its bucket
 * @property {readonly { key: string, value: string }[]} [descriptor] absent where values are hashed
 * @property {number} asked
 * @property {number} refused
 * @property {string | null} refused_since
 */

/** Whose key it is: its entries if they can be told, else the name of its bucket. @param {TopKey} key */
export function keyWords({ descriptor, key }) {
  if (descriptor === undefined || descriptor.length === 0) return key;
  return descriptor.map((entry) => `${entry.key}=${entry.value}`).join(",");
}

/** @param {TopKey} key */
export function ruleWords({ domain, rule }) {
  return rule === "" ? `the global limit of ${domain}` : `rule ${rule} of ${domain}`;
}
