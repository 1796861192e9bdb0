// The pages that need permission (access.ts): /state and /history for the operator's page, /top, /explain, /buckets, /limits. The log names
// every use of /buckets.

import type { IncomingMessage } from "node:http";
import { type Caller, judgeAccess } from "./access.ts";
import type { AdminAction, AdminWatch } from "./admin-watch.ts";
import { readBody } from "./body.ts";
import { answerBuckets, type BucketSource } from "./bucket-pages.ts";
import { answerLimits, type LimitsSource, wantsToken } from "./limit-pages.ts";
import { type HttpAnswer, json, type Page, READ, withHeaders } from "./page-server.ts";
import { type ExplainQuestion, readExplainQuestion, readQuery, wordIn } from "./read-questions.ts";
import type { Tokens } from "./tokens.ts";
import { answerTop, type TopSource } from "./top-page.ts";

export interface GuardedSources {
  /**
   * Returns or resolves to a report, which goes out as JSON. A RequestError that it throws becomes a 400. `showsWho`: the caller holds a
   * token, so it is shown who has set limits at run time, and why.
   */
  readonly explain: (question: ExplainQuestion, showsWho: boolean) => unknown;
  readonly buckets: BucketSource;
  /** What is wrong now, and the counters; with a `scope` without what other processes say. */
  readonly state: (scope?: "process") => Promise<object>;
  /** Rates of the last fifteen minutes; null before the first sample. */
  readonly history: () => Promise<object | null>;
  readonly top: TopSource;
  readonly limits: LimitsSource;
  readonly tokens: Tokens;
  readonly watch: AdminWatch;
}

/** Longest body of a question to one of these pages. */
const QUESTION_BYTES_MAX = 131_072;

const POST = ["POST"] as const;

/** The pages by path. */
export function guardedPages(sources: GuardedSources): ReadonlyMap<string, Page> {
  const { tokens, explain, buckets, state, history, top, limits, watch } = sources;
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
    "what is wrong now, since when, and each rule's counters; ?scope=process",
    async (request) => json(200, await state(wordIn(readQuery(request, ["scope"]), "scope", ["process"]))),
  );
  add(
    "/history",
    "state",
    READ,
    "counters of calls and of the busiest rules, every five seconds for fifteen minutes",
    // Many short numbers: not a line each.
    async () => ({ ...json(200, null), body: `${JSON.stringify(await history())}\n` }),
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
