// The pages that need permission (access.ts): /state and /history for the operator's page, /top, /explain, /buckets,
// /limits. The log names every use of /buckets.

import type { IncomingMessage } from "node:http";
import { type Caller, judgeAccess } from "./access.ts";
import type { AdminAction, AdminWatch } from "./admin-watch.ts";
import { readBody } from "./body.ts";
import { answerBuckets, type BucketSource } from "./bucket-pages.ts";
import { answerLimits, type LimitsSource, wantsToken } from "./limit-pages.ts";
import { type HttpAnswer, json, type Page, READ, withHeaders } from "./page-server.ts";
import { countIn, type ExplainQuestion, readExplainQuestion, readQuery, wordIn } from "./read-questions.ts";
import { RULE_ORDERS, RULE_ROWS_MAX, type RuleRows, type RulesQuestion } from "./rule-rows.ts";
import type { Tokens } from "./tokens.ts";
import { answerTop, type TopSource } from "./top-page.ts";

export interface GuardedSources {
  /**
   * Returns or resolves to a report, which goes out as JSON. A RequestError that it throws becomes a 400. `showsWho`:
   * the caller holds a
   * token, so it is shown who has set limits at run time, and why.
   */
  readonly explain: (question: ExplainQuestion, showsWho: boolean) => unknown;
  readonly buckets: BucketSource;
  /** What is wrong now, and the counters; with a `scope` without what other processes say. */
  readonly state: (scope: "process" | undefined, showsWho: boolean) => Promise<object>;
  /** Rates of the last fifteen minutes or of the last hour, and events; null before the first sample. */
  readonly history: (span: "minutes" | "hour", showsWho: boolean) => Promise<object | null>;
  readonly ruleRows: (question: RulesQuestion) => Promise<RuleRows>;
  readonly top: TopSource;
  readonly limits: LimitsSource;
  readonly tokens: Tokens;
  readonly watch: AdminWatch;
}

/** Longest body of a question to one of these pages. */
const QUESTION_BYTES_MAX = 131_072;

/** Most rows that a question of /rules passes over. */
const PASSED_OVER_MAX = 1_000_000;

const POST = ["POST"] as const;

/** The pages by path. */
export function guardedPages(sources: GuardedSources): ReadonlyMap<string, Page> {
  const { tokens, explain, buckets, state, history, ruleRows, top, limits, watch } = sources;
  const bytesMax = QUESTION_BYTES_MAX;
  const pages = new Map<string, Page>();
  const help = "whether this caller needs a token for the pages below";
  pages.set("/access", { methods: READ, help, answer: (request) => json(200, accessView(request, tokens)) });
  const add = (path: string, action: AdminAction, methods: Page["methods"], help: string, answer: GuardedAnswer) =>
    pages.set(path, { methods, help, isLong: true, answer: (request) => guard(action, request, sources, answer) });
  const bodyOf = (request: IncomingMessage) => {
    readQuery(request, []);
    return readBody(request, bytesMax);
  };
  const bucketsOf =
    (action: "peek" | "reset"): GuardedAnswer =>
    async (request, caller) =>
      answerBuckets(action, await bodyOf(request), caller, { buckets, watch });
  add(
    "/state",
    "state",
    READ,
    "what is wrong now, since when, what callers get, and who did something; ?scope=process",
    async (request) =>
      json(200, await state(wordIn(readQuery(request, ["scope"]), "scope", ["process"]), tokens.isAsked)),
  );
  add(
    "/rules",
    "state",
    READ,
    "rules with their counters, by domain; ?find=TEXT&domain=NAME&by=file|refused|asked&all&after=0&count=200",
    async (request) => json(200, await ruleRows(readRulesQuestion(request))),
  );
  add(
    "/history",
    "state",
    READ,
    "counters of calls and of the busiest rules over fifteen minutes, or ?span=hour, and what happened",
    // Many short numbers: not a line each.
    async (request) => {
      const span = wordIn(readQuery(request, ["span"]), "span", ["hour"]) ?? "minutes";
      return { ...json(200, null), body: `${JSON.stringify(await history(span, tokens.isAsked))}\n` };
    },
  );
  add("/explain", "explain", POST, "POST a domain and descriptors: which rules match and why", async (request) =>
    json(200, await explain(readExplainQuestion(await bodyOf(request)), tokens.isAsked)),
  );
  add("/buckets/peek", "peek", POST, "POST a domain and descriptors: what is left in their buckets", bucketsOf("peek"));
  add("/buckets/reset", "reset", POST, "POST the same: resets their buckets", bucketsOf("reset"));
  add("/top", "top", READ, "who asks and who is refused; ?window=minute|hour&by=refused|asked&keys=20", (request) =>
    answerTop(request, top),
  );
  // Changes last, so these pages need a token even from this host.
  const withToken = (answer: GuardedAnswer): GuardedAnswer => (tokens.isAsked ? answer : async () => wantsToken());
  add(
    "/limits",
    "limits",
    ["GET", "HEAD", "PUT", "DELETE"],
    "limits at run time: GET lists, PUT sets, DELETE unsets",
    withToken((request, caller) => answerLimits(request, caller, { bodyOf, limits, watch })),
  );
  return pages;
}

function readRulesQuestion(request: IncomingMessage): RulesQuestion {
  const query = readQuery(request, ["find", "domain", "by", "all", "after", "count"]);
  return {
    find: query.get("find") ?? "",
    by: wordIn(query, "by", RULE_ORDERS) ?? "file",
    domain: query.get("domain") ?? undefined,
    all: query.has("all"),
    after: countIn(query, "after", PASSED_OVER_MAX, 0, 0),
    count: countIn(query, "count", RULE_ROWS_MAX, RULE_ROWS_MAX),
  };
}

type GuardedAnswer = (request: IncomingMessage, caller: Caller) => Promise<HttpAnswer>;

/** Neither counted nor logged as a refusal: the operator's page asks this first, to avoid refusals. */
function accessView(request: IncomingMessage, tokens: Tokens): object {
  if (tokens.isAsked) return { wants: "token" };
  const judgement = judgeAccess(request, tokens);
  return "refusal" in judgement ? { wants: "another caller", says: judgement.refusal.body } : { wants: "nothing" };
}

async function guard(
  action: AdminAction,
  request: IncomingMessage,
  { tokens, watch }: GuardedSources,
  answerTo: GuardedAnswer,
): Promise<HttpAnswer> {
  const judgement = judgeAccess(request, tokens);
  if ("refusal" in judgement) {
    watch.refused(action, judgement.peer, judgement.reason);
    // The rest of the request is not read, so the connection can't be used again.
    return withHeaders(judgement.refusal, { connection: "close" });
  }
  let isDone = false;
  try {
    const answer = await answerTo(request, judgement.caller);
    isDone = answer.status === 200;
    return answer;
  } finally {
    watch.used(action, isDone);
  }
}
