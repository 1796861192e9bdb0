// The keys that are refused most.

import { bodyOf, byId, keepChildren, make, part, setShown, setText } from "./dom.mjs";
import { keyWords, noKeyWords, outstandingKey } from "./top-key.mjs";
import { countWords, shown, sinceWords } from "./words.mjs";

/**
 * @typedef {import("./top-key.mjs").TopKey} TopKey
 * @typedef {import("./top-key.mjs").TopAnswer} TopAnswer
 */

const WITH_KEYS = "Within the last minute; counts may be a little too high.";

/** @param {TopAnswer} answer @param {(key: TopKey) => void} explain */
export function showTop(answer, explain) {
  const { keys, at, refused: all } = answer;
  const refused = keys.filter((key) => key.refused > 0);
  setText(byId("top-note"), outstandingKey(answer) === undefined ? noKeyWords(all) : WITH_KEYS);
  setShown(byId("top"), refused.length > 0);
  keepChildren(bodyOf("top"), refused, {
    key: ({ domain, rule, key }) => JSON.stringify([domain, rule, key]),
    create: (key) => createTop(key, explain),
    update: (row, key) => {
      setText(part(row, ".refused"), countWords(key.refused));
      setText(part(row, ".asked"), countWords(key.asked));
      setText(part(row, ".since"), key.refused_since === null ? "-" : sinceWords(key.refused_since, at));
    },
  });
}

/** @param {TopKey} key @param {(key: TopKey) => void} explain */
function createTop(key, explain) {
  const name = shown(keyWords(key), 80);
  const head = make("th", { scope: "row" }, name);
  if (key.descriptor !== undefined) {
    const button = make("button", { type: "button", "aria-label": `Explain ${name}` }, "Explain");
    button.addEventListener("click", () => explain(key));
    head.append(make("small", {}, button));
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
