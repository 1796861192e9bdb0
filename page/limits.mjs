// Limits at run time: those in force, and setting or unsetting one for one caller.

import { byId, fillTable, make, setText } from "./dom.mjs";
import { askFirst } from "./question.mjs";
import { askedEntry } from "./read-descriptor.mjs";
import { durationWords, plural, sentence, shown, timeWords } from "./words.mjs";

/**
 * @typedef {import("./ask.mjs").Server} Server
 * @typedef {import("./read-descriptor.mjs").Entry} Entry
 * @typedef {{ domain: string, entries: readonly Entry[] }} Caller
 * @typedef {import("../src/engine/rules/explain-report.ts").DescriptorReport} DescriptorReport
 * @typedef {Caller & import("../src/engine/rules/explain-report.ts").RuntimeLimitReport & { says?: string }} SetLimit
 * @typedef {Awaited<ReturnType<typeof import("../src/process/app/state-page.ts").readState>>} State
 * @typedef {import("../src/operate/http/limit-pages.ts").SetAnswer} SetAnswer
 * @typedef {import("./question.mjs").Action} Action
 * @typedef {(action: Action, caller: Caller) => void} Act
 */

/** Most limits that are listed. */
const LISTED_MAX = 100;
/** @type {Readonly<Record<string, string>>} */
const KINDS = { amounts: "with other amounts", use: "with another tier", block: "blocked", exempt: "exempt" };
const NEEDS_TOKEN =
  "This server has no token, so nobody may set any: set ADMIN_TOKEN or ADMIN_TOKEN_FILE, and restart it.";
/** The last list, and the state that it is of. @type {{ of: string, limits: readonly SetLimit[] }} */
let listed = { of: "", limits: [] };

/** Shows limits in force; fetches the list when they have changed. Throws NoAnswer. @param {Server} server @param {State} state @param {Act} act */
export async function showLimits(server, { instance, at, rules, runtime_limits: counts }, act) {
  const of = JSON.stringify([instance, rules.hash, counts]);
  if (server.hasToken && of !== listed.of) listed = { of, ...(await server.ask(`limits?newest=${LISTED_MAX}`)) };
  const limits = server.hasToken ? listed.limits : [];
  setText(byId("limits-note"), `${countsWords(counts.in_force)}${server.hasToken ? "" : ` ${NEEDS_TOKEN}`}`);
  fillTable(byId("limits"), limits, (limit) => JSON.stringify(limit), [
    { head: "Caller", is: "caller", parts: (limit) => callerParts(limit, act) },
    { head: "Limits now", parts: limitParts },
    { head: "Ends", is: "ends", text: ({ until }) => endWords(until, at) },
  ]);
}

/** @param {Readonly<Record<string, number>>} inForce by kind */
export function countsWords(inForce) {
  const counts = Object.entries(inForce);
  const all = counts.reduce((sum, [, count]) => sum + count, 0);
  if (all === 0) return "None in force.";
  const kinds = counts.map(([kind, count]) => `${count.toLocaleString("en")} ${KINDS[kind] ?? kind}`).join(", ");
  const more = all > LISTED_MAX ? ` The newest ${LISTED_MAX} are listed; \`headgate limits list\` has all.` : "";
  return `${plural(all, "caller")}: ${kinds}.${more}`;
}

/** @param {string | undefined} until @param {string} at now; both as the server writes them */
export function endWords(until, at) {
  if (until === undefined) return "never";
  const [untilMs, nowMs] = [Date.parse(until), Date.parse(at)];
  return `${timeWords(untilMs, nowMs)} (in ${durationWords((untilMs - nowMs) / 1_000)})`;
}

/** @param {Caller} caller */
export function callerWords({ entries }) {
  return entries
    .map(({ key, value, value_base64: base64 }) => `${key}=${base64 === undefined ? value : `(bytes) ${base64}`}`)
    .join(",");
}

/** @param {SetLimit} limit @param {Act} act */
function callerParts({ domain, entries }, act) {
  const buttons = actionButtons({ domain, entries }, ["Unset"], act);
  return [shown(callerWords({ domain, entries }), 80), make("small", {}, shown(domain, 80), ...buttons)];
}

/** @param {SetLimit} limit */
function limitParts({ limits, says, who, note, set_at: setAt }) {
  const does =
    limits === undefined ? make("span", { class: "warning" }, sentence(says ?? "")) : shown(limits.join("; "), 300);
  const by = `set ${setAt.slice(0, 19)}Z by ${who}${note === undefined ? "" : `: ${note}`}`;
  return [does, make("small", {}, shown(by, 300))];
}

/** A button for each action. @param {Caller} caller @param {readonly Action[]} actions @param {Act} act */
export function actionButtons(caller, actions, act) {
  const name = shown(callerWords(caller), 80);
  return actions.flatMap((action) => {
    const button = make("button", { type: "button", "aria-label": `${action} ${name}` }, action);
    button.addEventListener("click", () => act(action, caller));
    return [" ", button];
  });
}

/** Changes the limits of a caller, after a question. @param {Server} server @param {Action} action @param {Caller} caller @param {import("./question.mjs").Tell} tell */
export async function askLimit(server, action, caller, tell) {
  const { domain } = caller;
  /** The state shown before the change; the server refuses the change if the state is another by then. */
  let seenUs = 0;
  const entries = caller.entries.map(askedEntry);
  const prepare = async () => {
    const report = await server.ask("explain", { domain, descriptors: [{ entries }] });
    /** @type {Partial<DescriptorReport>} */
    const { runtime_limit: set, limits = [], rule, says = report.says } = report.descriptors?.[0] ?? {};
    const choices = limits.map(({ id, says: does }) => {
      const label = labelOf(id, domain, rule?.path ?? "");
      return make("option", { value: label }, shown(`${label === "" ? "" : `${label}: `}${does}`, 100));
    });
    seenUs = set?.seen_us ?? 0;
    const now = set === undefined && limits.length > 0 ? limits.map((limit) => limit.says).join("; ") : says;
    const canAct = action !== "Unset" || set !== undefined;
    const none = canAct ? "" : "Nothing is set for this caller.";
    return { now: `Now: ${sentence(now)}`, canAct, says: none, limits: choices };
  };
  const act = async () => {
    const limit = { domain, entries, ...fieldsOf(action), note: byId("limit-note").value, seen_us: seenUs };
    return outcomeOf(await server.change(action === "Unset" ? "DELETE" : "PUT", "limits", { limits: [limit] }));
  };
  await askFirst(action, `${shown(callerWords(caller), 200)} in ${shown(domain, 80)}`, prepare, act, tell);
}

/** A limit's name within its rule, as changes name it; empty for the only one. @param {string} id @param {string} domain @param {string} path */
export function labelOf(id, domain, path) {
  const head = `${domain}/${path}#`;
  return id.startsWith(head) ? id.slice(head.length) : "";
}

/** The form's fields in the form that PUT takes. @param {Action} action */
function fieldsOf(action) {
  const end = byId("limit-until").value;
  const until = end === "" ? {} : { until_seconds: Number(end) };
  if (action === "Unset") return {};
  if (action === "Block") return { block: true, ...until };
  if (action === "Exempt") return { exempt: true, ...until };
  const limit = byId("limit-name").value;
  const requests = Number(byId("limit-requests").value);
  return { ...(limit === "" ? {} : { limit }), requests_per_unit: requests, ...until };
}

/** @param {SetAnswer} answer @returns {import("./question.mjs").Outcome} */
function outcomeOf({ limits: [result], processes }) {
  if (result?.outcome !== "set") {
    const says = sentence(`not done: ${result?.says ?? "the server's answer is empty"}`);
    return { isDone: false, says, colour: "critical" };
  }
  const { after = [] } = result;
  const now = `Now: ${sentence(after.length === 0 ? "the rule's limits" : after.join("; "))}`;
  return { isDone: true, says: processesWords(processes), colour: processes?.waiting.length ? "warning" : "well", now };
}

/** @param {SetAnswer["processes"]} processes */
export function processesWords(processes) {
  if (processes === undefined || processes.count === 0) return "Set. No process has confirmed it yet.";
  const { count, confirmed, waiting, is_saved: isSaved } = processes;
  const others = waiting.length === 0 ? "" : ` Not confirmed: ${shown(waiting.join(", "), 300)}.`;
  if (isSaved === false) return "In force, but not yet in the file that keeps it: a restart would lose it.";
  return `In force in ${confirmed} of ${count === 1 ? "1 process" : `${count} processes`}.${others}`;
}
