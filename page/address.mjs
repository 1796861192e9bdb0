// The address says what the page shows, so that it can be pasted into a chat: the open rule and key, the search and the
// order, the length of charts and the time zone; never the token. Pure.

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
