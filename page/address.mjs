// The address says what the page shows, so that it can be pasted into a chat: the open rule, the explained descriptor, the search and the
// order; never the token. Pure.

/** @typedef {{ rule: string, domain: string, explain: string, find: string, sort: string, window: string }} View */

/** @type {View} */
const EVERYTHING = { rule: "", domain: "", explain: "", find: "", sort: "", window: "" };

/** Reads an address; ignores what is not part of a view. @param {string} hash @returns {View} */
export function viewOf(hash) {
  const given = new URLSearchParams(hash.slice(1));
  const named = Object.keys(EVERYTHING).map((name) => [name, given.get(name) ?? ""]);
  return Object.fromEntries(named);
}

/** The address of a view. @param {View} view @param {Partial<View>} changes */
export function hrefOf(view, changes = {}) {
  const named = Object.entries({ ...view, ...changes }).filter(([, value]) => value !== "");
  return `#${new URLSearchParams(named)}`;
}
