// The line at the top: which process answers, how its store does, how old the page is, times.

import { hrefOf } from "./address.mjs";
import { byId, setShown, setText } from "./dom.mjs";
import { durationWords, millisWords, processName, shown } from "./words.mjs";

/** Shows a state. @param {State} state @param {CallHistory | null} history @param {View} view */
export function showHeader({ instance, version, processes, store, conditions, links }, history, view) {
  const others = (processes ?? []).length - 1;
  const more = others > 0 ? ` and ${others} more` : "";
  setText(byId("who"), shown(`${processName(instance)}${more}, version ${version}`));
  const says = storeWords({ store, conditions }, history);
  setText(byId("store"), says.words);
  byId("store").className = `chip ${says.colour}`;
  for (const id of ["store", "live", "pause", "views", "links"]) setShown(byId(id), true);
  showChoice("span", { minutes: "", hour: "hour" }, view.span, view);
  showChoice("zone", { local: "", utc: "utc" }, view.zone, view);
  setLink(byId("metrics-link"), links.metrics.slice(1));
  setShown(byId("docs-link"), links.docs !== null);
  if (links.docs !== null) setLink(byId("docs-link"), `${links.docs}/operations.md`);
}

/** A choice of links, one of which is open. @param {"span" | "zone"} name @param {Record<string, string>} choices @param {string} chosen @param {View} view */
function showChoice(name, choices, chosen, view) {
  for (const [id, value] of Object.entries(choices)) {
    const link = byId(`${name}-${id}`);
    setLink(link, hrefOf(view, { [name]: value }));
    link.setAttribute("aria-current", String(chosen === value));
  }
}

/** @param {Element} link @param {string} href */
function setLink(link, href) {
  if (link.getAttribute("href") !== href) link.setAttribute("href", href);
}

/** The store in a few words. @param {Pick<State, "store" | "conditions">} state @param {CallHistory | null} history */
export function storeWords({ store, conditions }, history) {
  if (store === "memory") return { words: "memory", colour: "well" };
  const name = { redis: "Redis", postgres: "PostgreSQL" }[store] ?? shown(store);
  const isAway = conditions.some(({ id }) => id === "store" || id.startsWith("breaker "));
  if (isAway) return { words: `${name} away`, colour: "critical" };
  const slow = (history?.times_us.store_p99 ?? []).slice(-12).findLast((us) => us !== null) ?? null;
  return { words: slow === null ? `${name}, not asked` : `${name} p99 ${millisWords(slow)}`, colour: "well" };
}

/** How old the page is. @param {number | undefined} answeredMs @param {boolean} isPaused */
export function showAge(answeredMs, isPaused) {
  const age = answeredMs === undefined ? "" : `${durationWords((Date.now() - answeredMs) / 1_000)} ago`;
  setText(byId("live"), isPaused ? `paused, ${age}` : `live, ${age}`);
  byId("live").className = isPaused ? "chip warning" : "chip";
  setText(byId("pause"), isPaused ? "Go on" : "Pause");
}
