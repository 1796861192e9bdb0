// GET, PUT and DELETE /limits: limits at run time. Reads the questions and writes the answers;
// process/app/runtime-limits.ts does the work. guarded-pages.ts has checked who asks.

import type { IncomingMessage } from "node:http";
import type { shownEntry } from "../../engine/rules/explain.ts";
import type { RuntimeLimitReport } from "../../engine/rules/explain-report.ts";
import type { AskedCaller, AskedLimit } from "../../engine/runtime/runtime-limit.ts";
import type { ChangedLimit } from "../telemetry/event-book.ts";
import type { Caller } from "./access.ts";
import type { AdminWatch } from "./admin-watch.ts";
import { type HttpAnswer, json, text } from "./page-server.ts";
import { readAskedLimit } from "./read-asked-limit.ts";
import { asList, asRecord, countIn, parseJson, readQuery, refused } from "./read-questions.ts";

/** The outcome for one limit. `before` and `after` are the caller's limits in words. */
export interface SetLimit {
  readonly domain: string;
  readonly entries: readonly ReturnType<typeof shownEntry>[];
  readonly outcome: "set" | "would be set" | "refused" | "conflict";
  readonly says?: string;
  readonly before?: readonly string[];
  readonly after?: readonly string[];
  readonly until?: string;
  /** What somebody else set meanwhile. */
  readonly now?: object;
}

export interface SetAnswer {
  readonly limits: readonly SetLimit[];
  /**
   * The number of processes that share the store, of those that applied the change, and the hosts of the others.
   * `is_saved` is false while the
   * file of a single process lacks it.
   */
  readonly processes:
    | {
        readonly count: number;
        readonly confirmed: number;
        readonly waiting: readonly string[];
        readonly is_saved?: false;
      }
    | undefined;
}

interface SetHow {
  /** Checks and reports, changes nothing. */
  readonly isDry: boolean;
  /** Waits until all processes have it in force, for up to two seconds. */
  readonly waits: boolean;
}

interface LimitsQuery {
  readonly domain: string | undefined;
  /** `next` of the answer before. */
  readonly after: string | undefined;
  readonly countMax: number;
  /** The newest first, without more. */
  readonly newest: boolean;
}

interface LimitsAnswer {
  readonly limits: readonly object[];
  readonly next: string | undefined;
}

/** What is in force in the process. */
export interface LimitCounts {
  /** Number by kind; `idle`: those that do nothing, because the rules changed or they can't be read. */
  readonly inForce: Readonly<Record<string, number>>;
  /** The last change, in microseconds of the store's clock; undefined if none is known. */
  readonly last: ChangedLimit | undefined;
  /** Ids of rules, as in `edge/tenant`, with limits at run time for some caller. */
  readonly rules: ReadonlySet<string>;
  /** Another number after each change. */
  readonly changes: number;
  /** When the first of them ends; infinite if none does. */
  readonly untilUs: number;
}

/** `set` may reject with RequestError or StoreError. */
export interface LimitsSource {
  /** Sets or, with `none`, unsets limits, each on its own. */
  set(asked: readonly AskedLimit[], who: string, how: SetHow): Promise<SetAnswer>;
  list(query: LimitsQuery): Promise<LimitsAnswer>;
  /** What is in force for one caller. */
  of(caller: AskedCaller): RuntimeLimitReport | undefined;
  counts(): Promise<LimitCounts>;
}

/** Most limits of one request. */
const LIMITS_MAX = 500;
const LISTED_MAX = 1_000;

const BODY_KEYS = ["limits", "dry_run", "wait"];

interface LimitPageOptions {
  readonly bodyOf: (request: IncomingMessage) => Promise<Buffer>;
  readonly limits: LimitsSource;
  readonly watch: AdminWatch;
}

/** Answers /limits. */
export async function answerLimits(
  request: IncomingMessage,
  caller: Caller,
  { bodyOf, limits, watch }: LimitPageOptions,
): Promise<HttpAnswer> {
  if (request.method === "GET" || request.method === "HEAD") return json(200, await limits.list(listQuery(request)));
  const { asked, how } = readSetBody(await bodyOf(request), request.method === "DELETE");
  const answer = await limits.set(asked, caller.who, how);
  for (const each of answer.limits) if (each.outcome === "set") watch.limitSet(caller, each);
  const [first] = answer.limits;
  const status = answer.limits.length > 1 || first === undefined ? 200 : STATUS[first.outcome];
  return json(status, answer);
}

const STATUS = { set: 200, "would be set": 200, refused: 400, conflict: 409 } as const;

function listQuery(request: IncomingMessage): LimitsQuery {
  const query = readQuery(request, ["domain", "after", "count", "newest"]);
  const newest = query.has("newest");
  if (newest && (query.has("after") || query.has("count"))) throw refused("newest without after and count");
  const after = query.get("after") ?? undefined;
  if (after !== undefined && !/^\d{1,10}\./.test(after)) throw refused("`next` of an answer as after");
  const countMax = countIn(query, newest ? "newest" : "count", LISTED_MAX);
  return { domain: query.get("domain") ?? undefined, after, countMax, newest };
}

/** Reads the body of PUT and DELETE. Throws RequestError, which names the field. */
function readSetBody(body: Buffer, unsets: boolean): { asked: readonly AskedLimit[]; how: SetHow } {
  const { limits, dry_run: isDry = false, wait: waits = true } = asRecord(parseJson(body), "the body", BODY_KEYS);
  if (typeof isDry !== "boolean" || typeof waits !== "boolean") throw refused("true or false as dry_run and wait");
  const asked = asList(limits ?? [], "limits", LIMITS_MAX).map((limit, i) =>
    readAskedLimit(limit, `limits[${i}]`, unsets),
  );
  if (asked.length === 0) throw refused("at least one of limits");
  return { asked, how: { isDry, waits } };
}

/** The 403 of a server without tokens; the caller's address does not help here. */
export function wantsToken(): HttpAnswer {
  return text(
    403,
    "403 limits at run time need a token, even on this host: start the server with ADMIN_TOKEN or ADMIN_TOKEN_FILE\n",
  );
}
