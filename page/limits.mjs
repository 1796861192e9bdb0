// Limits at run time: those in force, and setting or unsetting one for one caller.

import { byId, fillTable, make, setShown, setText, withCode } from "./dom.mjs";
import { askFirst } from "./question.mjs";
import { askedEntry } from "./read-descriptor.mjs";
import { countWords, cut, durationWords, formTimeMs, plural, sentence, shown, timeWords, zoneWords } from "./words.mjs";

/** @typedef {Caller & RuntimeLimitReport & { says?: string }} SetLimit */

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
  fillTable(byId("limits"), limits, (limit) => JSON.stringify([limit, zoneWords(Date.now())]), [
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
  const caller = callerWords({ domain, entries });
  return [make("span", { title: shown(caller, 600) }, cut(caller, 60)), make("small", {}, cut(domain, 60), ...buttons)];
}

/** @param {SetLimit} limit */
function limitParts({ limits, says, who, note, set_at: setAt }) {
  const does =
    limits === undefined ? make("span", { class: "warning" }, sentence(says ?? "")) : shown(limits.join("; "), 300);
  const by = `set at ${setAt} by ${who}${note === undefined ? "" : `: ${note}`}`;
  return [does, make("small", {}, ...withCode(shown(by, 300)))];
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

/** Changes the limits of a caller, after a question. @param {Server} server @param {Action} action @param {Caller} caller @param {Tell} tell */
export async function askLimit(server, action, caller, tell) {
  const { domain } = caller;
  /** The state shown before the change; the server refuses the change if the state is another by then. */
  let seenUs = 0;
  const entries = caller.entries.map(askedEntry);
  const prepare = async () => {
    const report = await server.ask("explain", { domain, descriptors: [{ entries }] });
    /** @type {Partial<DescriptorReport>} */
    const { runtime_limit: set, limits = [], rule, says = report.says } = report.descriptors?.[0] ?? {};
    const choices = limits.map((limit) => {
      const label = labelOf(limit.id, domain, rule?.path ?? "");
      return {
        label,
        limit,
        option: make("option", { value: label }, shown(`${label === "" ? "" : `${label}: `}${limit.says}`, 100)),
      };
    });
    seenUs = set?.seen_us ?? 0;
    const now = set === undefined && limits.length > 0 ? limits.map((limit) => limit.says).join("; ") : says;
    const canAct = action !== "Unset" || set !== undefined;
    const none = canAct ? "" : "Nothing is set for this caller.";
    const chosen = (/** @type {string} */ label) => showUnits(choices.find((each) => each.label === label)?.limit);
    return { now: `Now: ${sentence(now)}`, canAct, says: none, limits: choices.map(({ option }) => option), chosen };
  };
  const change = (/** @type {object} */ how) => {
    const limit = { domain, entries, ...fieldsOf(action), note: byId("limit-note").value, seen_us: seenUs };
    return server.change(action === "Unset" ? "DELETE" : "PUT", "limits", { limits: [limit], ...how });
  };
  const preview = async () => previewWords(await change({ dry_run: true }));
  const act = async () => outcomeOf(await change({}));
  await askFirst(action, `${cut(callerWords(caller), 120)} in ${cut(domain, 60)}`, { prepare, preview, act }, tell);
}

/** Names the unit of each field, with what it is now. @param {DescriptorReport["limits"][number] | undefined} limit */
function showUnits(limit) {
  const { algorithm = "", amount = 0, burst = 0, window_seconds: window = 1, calendar } = limit ?? {};
  const isTokens = algorithm === "token_bucket";
  const unit = { 1: "second", 60: "minute", 3600: "hour", 86400: "day" }[window] ?? `${countWords(window)} s`;
  const what = `${isTokens ? "Tokens" : "Hits"} per ${calendar ?? unit}`;
  setText(
    byId("limit-unit"),
    algorithm === "concurrent"
      ? `Under way at once (now ${countWords(amount)})`
      : `${what} (now ${countWords(amount)})`,
  );
  setText(byId("limit-burst-unit"), `Burst, empty for as before (now ${countWords(burst)})`);
  setShown(byId("limit-burst-field"), isTokens);
  byId("limit-requests").value = String(amount);
  byId("limit-burst").value = "";
}

/** What the change would do. @param {SetAnswer} answer */
function previewWords({ limits: [result] }) {
  if (result?.outcome !== "would be set") return sentence(result?.says ?? "");
  const words = (/** @type {readonly string[]} */ list) => (list.length === 0 ? "the rule's limits" : list.join("; "));
  const until = result.until === undefined ? "" : `, until ${result.until}`;
  return `Before: ${words(result.before ?? [])}. After: ${words(result.after ?? [])}${until}.`;
}

/** A limit's name within its rule, as changes name it; empty for the only one. @param {string} id @param {string} domain @param {string} path */
export function labelOf(id, domain, path) {
  const head = `${domain}/${path}#`;
  return id.startsWith(head) ? id.slice(head.length) : "";
}

/** The form's fields in the form that PUT takes. @param {Action} action */
function fieldsOf(action) {
  if (action === "Unset") return {};
  const until = untilOf();
  if (action === "Block") return { block: true, ...until };
  if (action === "Exempt") return { exempt: true, ...until };
  const [limit, burst] = [byId("limit-name").value, byId("limit-burst").value];
  const requests = Number(byId("limit-requests").value);
  return {
    ...(limit === "" ? {} : { limit }),
    requests_per_unit: requests,
    ...(burst === "" ? {} : { burst: Number(burst) }),
    ...until,
  };
}

function untilOf() {
  const end = byId("limit-until").value;
  if (end === "") return {};
  if (end !== "at") return { until_seconds: Number(end) };
  const atMs = formTimeMs(byId("limit-at").value);
  return { until: Number.isNaN(atMs) ? "" : new Date(atMs).toISOString() };
}

/** @param {SetAnswer} answer @returns {Outcome} */
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
