// GET, PUT and DELETE /limits, and GET /limits/history: limits at run time. Reads the questions and writes the answers;
// process/app/runtime-limits.ts does the work. guarded-pages.ts has checked who asks.

import type { IncomingMessage } from "node:http";
import { StoreError } from "../../engine/base/errors.ts";
import { AMOUNT_MAX } from "../../engine/base/units.ts";
import { readTyped } from "../../engine/domain/entry-text.ts";
import { UNIT_NAMES, type Unit } from "../../engine/domain/limit.ts";
import { DOMAIN_BYTES_MAX, ENTRIES_MAX, type WrittenEntry } from "../../engine/domain/request.ts";
import type { RuntimeLimitReport } from "../../engine/rules/explain-report.ts";
import { RUNTIME_KEY_BYTES_MAX, RUNTIME_TEXT_MAX, type RuntimeChange } from "../../engine/runtime/runtime-limit.ts";
import type { Caller } from "./access.ts";
import type { AdminWatch } from "./admin-watch.ts";
import { readBody } from "./body.ts";
import { type HttpAnswer, json, text } from "./page-server.ts";
import { asList, asRecord, asText, parseJson, readEntry, refused } from "./read-questions.ts";

/** One limit at run time as it is asked for. */
export interface AskedLimit {
  readonly caller: { readonly domain: string; readonly entries: readonly WrittenEntry[] };
  readonly change: RuntimeChange;
  /** In the store's time; undefined: no end. */
  readonly until: { readonly seconds: number } | { readonly atUs: number } | undefined;
  readonly note: string;
  /** `seen_us` of what the operator was shown, 0 for nothing: set only if it is there still. Undefined: whatever is there. */
  readonly seenUs: number | undefined;
}

/** What became of one. `before` and `after` are the caller's limits in words. */
export interface SetLimit {
  readonly domain: string;
  readonly entries: readonly object[];
  readonly outcome: "set" | "would be set" | "refused" | "conflict";
  readonly says?: string;
  readonly before?: readonly string[];
  readonly after?: readonly string[];
  readonly until?: string;
  /** What somebody else has set instead. */
  readonly now?: object;
}

export interface SetAnswer {
  readonly limits: readonly SetLimit[];
  /** The processes that share the store, how many have the change in force, and the hosts of the others. */
  readonly processes:
    | { readonly count: number; readonly confirmed: number; readonly waiting: readonly string[] }
    | undefined;
}

export interface SetHow {
  /** Only says what would become of it. */
  readonly isDry: boolean;
  /** Waits until all processes have it in force, for up to two seconds. */
  readonly waits: boolean;
}

export interface LimitsQuery {
  readonly domain: string | undefined;
  /** `next` of the answer before. */
  readonly after: string | undefined;
  readonly countMax: number;
}

export interface LimitsAnswer {
  readonly limits: readonly object[];
  readonly next: string | undefined;
}

/** What is in force in the process, whichever of its threads is asked. */
export interface LimitCounts {
  /** Number by kind; without kinds of which there are none. */
  readonly inForce: Readonly<Record<string, number>>;
  /** When the last change was made, in microseconds of the store's clock; undefined if none is known. */
  readonly changedUs: number | undefined;
  /** Another number after each change. */
  readonly changes: number;
}

/** `set` and `history` may reject with RequestError or StoreError. */
export interface LimitsSource {
  /** Sets or, with `none`, unsets limits, each by itself. */
  set(asked: readonly AskedLimit[], who: string, how: SetHow): Promise<SetAnswer>;
  list(query: LimitsQuery): LimitsAnswer;
  history(caller: AskedLimit["caller"], countMax: number): Promise<readonly object[]>;
  /** What is in force for one caller. */
  of(caller: AskedLimit["caller"]): RuntimeLimitReport | undefined;
  counts(): Promise<LimitCounts>;
}

/** Most limits of one request. */
const LIMITS_MAX = 500;
const LISTED_MAX = 1_000;
const HISTORY_MAX = 100;
const SECONDS_MAX = 10 * 365 * 86_400;

const BODY_KEYS = ["limits", "dry_run", "wait"];
const SET_KEYS = [
  "domain",
  "entries",
  "limit",
  "requests_per_unit",
  "unit",
  "burst",
  "amounts",
  "use",
  "block",
  "shadow",
  "exempt",
  "global_limit",
  "until",
  "until_seconds",
  "note",
  "seen_us",
];
const UNSET_KEYS = ["domain", "entries", "note", "seen_us"];
const AMOUNT_KEYS = ["limit", "requests_per_unit", "unit", "burst"];

/** Answers /limits. */
export async function answerLimits(
  request: IncomingMessage,
  caller: Caller,
  { bytesMax, limits, watch }: { readonly bytesMax: number; readonly limits: LimitsSource; readonly watch: AdminWatch },
): Promise<HttpAnswer> {
  if (request.method === "GET" || request.method === "HEAD") return json(200, limits.list(readQuery(request)));
  const { asked, how } = readSetBody(await readBody(request, bytesMax), request.method === "DELETE");
  return orUnavailable(async () => {
    const answer = await limits.set(asked, caller.who, how);
    for (const each of answer.limits) if (each.outcome === "set") watch.limitSet(caller, each);
    const [first] = answer.limits;
    const status = answer.limits.length > 1 || first === undefined ? 200 : STATUS[first.outcome];
    return json(status, answer);
  });
}

const STATUS = { set: 200, "would be set": 200, refused: 400, conflict: 409 } as const;

/** Answers /limits/history?domain=...&descriptor=key=value. */
export function answerHistory(request: IncomingMessage, limits: LimitsSource): Promise<HttpAnswer> {
  const query = queryOf(request, ["domain", "descriptor"]);
  const domain = asText(query.get("domain") ?? "", "domain", DOMAIN_BYTES_MAX);
  const entries = readTyped(asText(query.get("descriptor") ?? "", "descriptor", RUNTIME_KEY_BYTES_MAX));
  if (typeof entries === "string") throw refused(`a descriptor: ${entries}`);
  return orUnavailable(async () =>
    json(200, { domain, entries, history: await limits.history({ domain, entries }, HISTORY_MAX) }),
  );
}

async function orUnavailable(answer: () => Promise<HttpAnswer>): Promise<HttpAnswer> {
  try {
    return await answer();
  } catch (error) {
    if (error instanceof StoreError) return text(503, `${error.code}: ${error.message}\n`);
    throw error;
  }
}

function readQuery(request: IncomingMessage): LimitsQuery {
  const query = queryOf(request, ["domain", "after", "count"]);
  const count = Number(query.get("count") ?? LISTED_MAX);
  if (!Number.isInteger(count) || count < 1 || count > LISTED_MAX) throw refused(`a count from 1 to ${LISTED_MAX}`);
  const after = query.get("after") ?? undefined;
  if (after !== undefined && !/^\d{1,10}\.\d{1,10}$/.test(after)) throw refused("`next` of an answer as after");
  return { domain: query.get("domain") ?? undefined, after, countMax: count };
}

function queryOf(request: IncomingMessage, keys: readonly string[]): URLSearchParams {
  const query = new URLSearchParams((request.url ?? "").split("?")[1] ?? "");
  for (const key of query.keys())
    if (!keys.includes(key)) throw refused(`${keys.join(" or ")} in the query, got '${key}'`);
  return query;
}

/** Reads the body of PUT and DELETE. Throws RequestError, which names the field. */
function readSetBody(body: Buffer, unsets: boolean): { asked: readonly AskedLimit[]; how: SetHow } {
  const { limits, dry_run: isDry = false, wait: waits = true } = asRecord(parseJson(body), "the body", BODY_KEYS);
  if (typeof isDry !== "boolean" || typeof waits !== "boolean") throw refused("true or false as dry_run and wait");
  const asked = asList(limits ?? [], "limits", LIMITS_MAX).map((limit, i) => readLimit(limit, `limits[${i}]`, unsets));
  if (asked.length === 0) throw refused("at least one of limits");
  return { asked, how: { isDry, waits } };
}

function readLimit(value: unknown, at: string, unsets: boolean): AskedLimit {
  const fields = asRecord(value, at, unsets ? UNSET_KEYS : SET_KEYS);
  const { domain, entries, note = "", seen_us: seenUs } = fields;
  const caller = {
    domain: asText(domain, `${at}.domain`, DOMAIN_BYTES_MAX),
    entries: asList(entries, `${at}.entries`, ENTRIES_MAX).map((entry, i) => readEntry(entry, `${at}.entries[${i}]`)),
  };
  if (seenUs !== undefined && !isWhole(seenUs, Number.MAX_SAFE_INTEGER))
    throw refused(`a whole number as ${at}.seen_us`);
  const change: RuntimeChange = unsets ? { kind: "none" } : readChange(fields, at);
  return { caller, change, until: readUntil(fields, at), note: readShort(note, `${at}.note`), seenUs };
}

function readChange(fields: Record<string, unknown>, at: string): RuntimeChange {
  const { use, block, exempt, shadow = false, global_limit: global = false } = fields;
  const kinds = [use !== undefined, block === true, exempt === true, hasAmounts(fields)].filter((is) => is).length;
  if (kinds !== 1) throw refused(`one of requests_per_unit (or amounts), use, block: true and exempt: true in ${at}`);
  if (typeof shadow !== "boolean" || (shadow && block !== true)) throw refused(`shadow only beside block in ${at}`);
  if (typeof global !== "boolean" || (global && exempt !== true))
    throw refused(`global_limit only beside exempt in ${at}`);
  if (block === true) return { kind: "block", shadow };
  if (exempt === true) return { kind: "exempt", global };
  if (use !== undefined) return { kind: "use", name: Buffer.from(readShort(use, `${at}.use`)).toString("latin1") };
  const { amounts } = fields;
  if (amounts === undefined) return { kind: "amounts", amounts: [readAmount(fields, at)] };
  const list = asList(amounts, `${at}.amounts`, 8).map((amount, i) =>
    readAmount(asRecord(amount, `${at}.amounts[${i}]`, AMOUNT_KEYS), `${at}.amounts[${i}]`),
  );
  if (list.length === 0) throw refused(`at least one of ${at}.amounts`);
  return { kind: "amounts", amounts: list };
}

function hasAmounts({ requests_per_unit: requests, amounts }: Record<string, unknown>): boolean {
  return requests !== undefined || amounts !== undefined;
}

function readAmount({ limit = "", requests_per_unit: requests, unit, burst }: Record<string, unknown>, at: string) {
  const number = unit === undefined ? 0 : UNIT_NAMES.indexOf(String(unit).toLowerCase() as (typeof UNIT_NAMES)[number]);
  if (number < 0 || (unit !== undefined && number === 0))
    throw refused(`one of ${UNIT_NAMES.slice(1).join(", ")} as ${at}.unit`);
  if (!isWhole(requests, AMOUNT_MAX)) throw refused(`a whole number up to ${AMOUNT_MAX} as ${at}.requests_per_unit`);
  if (burst !== undefined && (!isWhole(burst, AMOUNT_MAX) || burst === 0))
    throw refused(`a whole number from 1 to ${AMOUNT_MAX} as ${at}.burst`);
  return {
    limit: Buffer.from(readShort(limit, `${at}.limit`)).toString("latin1"),
    requests,
    unit: number as Unit,
    burst,
  };
}

function readUntil({ until, until_seconds: seconds }: Record<string, unknown>, at: string): AskedLimit["until"] {
  if (until !== undefined && seconds !== undefined) throw refused(`either until or until_seconds in ${at}`);
  if (seconds !== undefined) {
    if (!isWhole(seconds, SECONDS_MAX) || seconds === 0)
      throw refused(`whole seconds from 1 to ${SECONDS_MAX} as ${at}.until_seconds`);
    return { seconds };
  }
  if (until === undefined) return undefined;
  const ms =
    typeof until === "string" && /^\d{4}-\d\d-\d\dT.*(?:Z|[+-]\d\d:\d\d)$/.test(until) ? Date.parse(until) : Number.NaN;
  if (Number.isNaN(ms)) throw refused(`a time such as 2026-12-24T18:00:00Z as ${at}.until`);
  return { atUs: ms * 1_000 };
}

function readShort(value: unknown, at: string): string {
  if (typeof value === "string" && value.length <= RUNTIME_TEXT_MAX) return value;
  throw refused(`text of at most ${RUNTIME_TEXT_MAX} characters as ${at}`);
}

function isWhole(value: unknown, max: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= max;
}

/** The answer without a token: 403, as the caller's address does not count here. */
export function wantsToken(): HttpAnswer {
  return text(
    403,
    "403 limits at run time want a token, also on this host: set ADMIN_TOKEN or ADMIN_TOKEN_FILE, and send it as `authorization: Bearer TOKEN`\n",
  );
}
