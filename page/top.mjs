// The keys that are refused most, and how they are called.

import { bodyOf, byId, keepChildren, make, part, setShown, setText } from "./dom.mjs";
import { actionButtons } from "./limits.mjs";
import { countWords, plural, shown, sinceWords } from "./words.mjs";

/** @param {TopAnswer} answer @param {(key: TopKey) => void} explain @param {import("./limits.mjs").Act | undefined} act undefined: nobody may */
export function showTop(answer, explain, act) {
  const { keys, at, window } = answer;
  const refused = keys.filter((key) => key.refused > 0);
  setText(
    byId("top-note"),
    outstandingKey(answer) === undefined
      ? noKeyWords(answer)
      : `Within the last ${window}; counts may be a little too high.`,
  );
  setShown(byId("top"), refused.length > 0);
  keepChildren(bodyOf("top"), refused, {
    key: ({ domain, rule, key }) => JSON.stringify([domain, rule, key]),
    create: (key) => createTop(key, explain, act),
    update: (row, key) => {
      setText(part(row, ".refused"), countWords(key.refused));
      setText(part(row, ".asked"), countWords(key.asked));
      setText(part(row, ".since"), key.refused_since === null ? "-" : sinceWords(key.refused_since, at));
    },
  });
}

/** @param {TopKey} key @param {(key: TopKey) => void} explain @param {import("./limits.mjs").Act | undefined} act */
function createTop(key, explain, act) {
  const name = shown(keyWords(key), 80);
  const head = make("th", { scope: "row" }, name);
  if (key.descriptor !== undefined) {
    const button = make("button", { type: "button", "aria-label": `Explain ${name}` }, "Explain");
    button.addEventListener("click", () => explain(key));
    const caller = { domain: key.domain, entries: key.descriptor };
    const actions = act === undefined ? [] : actionButtons(caller, ["Raise", "Block", "Exempt", "Unset"], act);
    head.append(make("small", {}, button, ...actions));
  }
  return make(
    "tr",
    {},
    head,
    make("td", { class: "rule" }, shown(key.rule === "" ? "global limit" : key.rule, 80), limitPart(key)),
    make("td", { class: "number refused" }),
    make("td", { class: "number wide asked" }),
    make("td", { class: "since" }),
  );
}

/** @param {TopKey} key */
function limitPart({ domain, limit }) {
  return make("small", {}, shown(limit === "" ? domain : `${limit}, ${domain}`, 80));
}

/** Says why there are none. @param {string} says */
export function hideTop(says) {
  setText(byId("top-note"), says);
  setShown(byId("top"), false);
}

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
 * @property {"minute" | "hour"} window
 * @property {number} window_seconds
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

/** Said where no key is outstanding. @param {TopAnswer} answer */
export function noKeyWords({ refused, window }) {
  if (refused === 0) return `None within the last ${window}.`;
  return `No key stands out among ${plural(refused, "refusal")} within the last ${window}.`;
}
