// Numbers, times and text of callers as people read them. Pure.

/**
 * Characters that are invisible or change the direction of writing: controls, format characters, line separators, lone surrogates. As in
 * src/base/visible.ts.
 */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}]/gu;

/** Longest text that is shown whole, in characters. */
const SHOWN_MAX = 160;

/**
 * Text of callers on one line: hidden characters by their numbers, long text by its beginning.
 * @param {string} text
 */
export function shown(text, max = SHOWN_MAX) {
  const cut = text.length > max ? text.slice(0, max) : text;
  const visible = cut.replace(HIDDEN, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`);
  return text.length > max ? `${visible} ... (${text.length} characters)` : visible;
}

/** Text on one line, cut in its middle: callers often begin alike. @param {string} text @param {number} max */
export function cut(text, max) {
  const whole = [...shown(text, Number.POSITIVE_INFINITY)];
  if (whole.length <= max) return whole.join("");
  const tail = Math.floor((max - 1) / 2);
  return `${whole.slice(0, max - 1 - tail).join("")}\u2026${whole.slice(-tail).join("")}`;
}

/** True if `shown` would change it. @param {string} text */
export function hides(text) {
  return shown(text, Number.POSITIVE_INFINITY) !== text;
}

/** A rate, rounded the more the larger it is. @param {number | null} rate */
export function rateWords(rate) {
  if (rate === null) return "-";
  if (rate === 0) return "0";
  if (rate < 10) return rate.toFixed(1);
  return countWords(Math.round(rate));
}

/** A time, given in microseconds. @param {number | null} us */
export function millisWords(us) {
  if (us === null) return "-";
  const ms = us / 1_000;
  return ms >= 1_000 ? `${(ms / 1_000).toFixed(1)} s` : `${ms < 10 ? ms.toFixed(ms < 1 ? 2 : 1) : Math.round(ms)} ms`;
}

/** Part of a whole: `64 %`. @param {number} part 0 to 1 */
export function percentWords(part) {
  if (part > 0 && part < 0.01) return "under 1 %";
  return part < 1 && part > 0.99 ? "over 99 %" : `${Math.round(part * 100)} %`;
}

/** @param {number} count */
export function countWords(count) {
  return count.toLocaleString("en");
}

/** `1 rule`, `2 rules`. @param {number} count @param {string} noun */
export function plural(count, noun, nouns = `${noun}s`) {
  return `${countWords(count)} ${count === 1 ? noun : nouns}`;
}

/** A length of time in its two largest units: `45 s`, `3 min`, `2 h 5 min`, `4 d 1 h`. @param {number} seconds */
export function durationWords(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return minutes < 5 && whole % 60 > 0 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 > 0 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 > 0 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** The zone of all times on the page: the reader's, or UTC. @type {"" | "utc"} */
let zone = "";

/** @param {string} name */
export function setZone(name) {
  zone = name === "utc" ? "utc" : "";
}

/** Its name at a time: `UTC`, `EST`. @param {number} atMs */
export function zoneWords(atMs) {
  if (zone === "utc") return "UTC";
  return new Date(atMs).toLocaleTimeString("en", { timeZoneName: "short" }).split(" ").at(-1) ?? "";
}

/** `2026-11-28 14:12:58` in the page's zone. @param {number} atMs */
function stampOf(atMs) {
  // Sweden writes times as ISO 8601 does.
  return new Date(atMs).toLocaleString("sv", zone === "utc" ? { timeZone: "UTC" } : {});
}

/** A time of day; with the date if it is over 20 hours away. @param {number} atMs @param {number} nowMs */
export function timeWords(atMs, nowMs = atMs) {
  return stampOf(atMs).slice(Math.abs(nowMs - atMs) < 72_000_000 ? -8 : 0);
}

/** A time of the page's zone, as a form has it, in milliseconds. @param {string} local `2026-11-28T14:12` */
export function formTimeMs(local) {
  return Date.parse(zone === "utc" ? `${local}Z` : local);
}

/** `13:02:10 (3 min)`; both times are the server's, so the reader's clock doesn't matter. @param {string} since @param {string} now */
export function sinceWords(since, now) {
  const [sinceMs, nowMs] = [Date.parse(since), Date.parse(now)];
  return `${timeWords(sinceMs, nowMs)} (${durationWords((nowMs - sinceMs) / 1_000)})`;
}

/** With a capital letter first and a full stop last. @param {string} says */
export function sentence(says) {
  return `${says.charAt(0).toUpperCase()}${says.slice(1)}${/[.!?]$/.test(says) ? "" : "."}`;
}

/** A process without its start time, which only distinguishes restarts. @param {string} instance */
export function processName(instance) {
  return shown(instance.split(":").slice(0, 2).join(":"), 80);
}
