// The address says what the page shows, so that it can be pasted into a chat: the open rule and key, the search and the
// order, the length of charts and the time zone; never the token. Pure.

/**
 * @typedef {object} View
 * @property {string} rule whose keys and chart are shown
 * @property {string} domain of the sheet's descriptor
 * @property {string} explain the descriptor in the sheet
 * @property {string} key a key that has no descriptor, in the sheet
 * @property {string} find @property {string} sort of rules
 * @property {string} order of keys @property {string} window of keys
 * @property {string} all the domain all of whose rules are shown @property {string} from how many are passed over
 * @property {string} span of charts @property {string} zone of times
 */

/** @type {View} */
const EVERYTHING = {
  ...{ rule: "", domain: "", explain: "", key: "", find: "", sort: "", order: "", window: "" },
  ...{ all: "", from: "", span: "", zone: "" },
};

/** What the sheet shows. */
export const NO_SHEET = { domain: "", explain: "", key: "" };

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
