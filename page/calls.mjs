// How many calls there are per second, as numbers and small charts.

import { byId, keepChildren, make, part, setText } from "./dom.mjs";
import { latest } from "./rates.mjs";
import { drawSpark, makeSpark } from "./spark.mjs";
import { rateWords } from "./words.mjs";

/** @typedef {import("./rates.mjs").RateHistory} RateHistory */

/** Under this name the history has the calls; no rule has it. */
export const CALLS = "";

const CALL_CHARTS = [
  { id: "calls", says: "all calls", hits: "calls", refused: "refused" },
  { id: "refused", says: "refused", hits: "refused", refused: "refused" },
  { id: "degraded", says: "without the store", hits: "degraded", refused: "degraded" },
  { id: "errors", says: "errors", hits: "errors", refused: "errors" },
];

/** @param {RateHistory} history */
export function showCalls(history) {
  keepChildren(byId("calls"), CALL_CHARTS, {
    key: ({ id }) => id,
    create: ({ says }) =>
      make("li", {}, make("span", { class: "quiet" }, says), make("output", { "aria-live": "off" }), makeSpark()),
    update: (item, { hits, refused }) => drawInto(item, history.rates(CALLS, hits), history.rates(CALLS, refused)),
  });
}

/** @param {Element} item @param {(number | null)[]} hits @param {(number | null)[]} refused */
function drawInto(item, hits, refused) {
  setText(part(item, "output"), rateWords(latest(hits)));
  drawSpark(part(item, "svg"), hits, refused);
}
