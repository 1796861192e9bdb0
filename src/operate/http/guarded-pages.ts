// The pages that need permission: /state, which the operator's page shows, /top, which names callers, /explain, which shows how
// rules treat a caller, and /buckets, which shows and changes what callers have left. Each asks access.ts first; every use of
// /buckets is logged.

import type { IncomingMessage } from "node:http";
import type { AdminAction, AdminOutcome } from "../telemetry/admin-counts.ts";
import { type Caller, judgeAccess } from "./access.ts";
import { readBody } from "./body.ts";
import { type AuditEntry, answerBuckets, type BucketSource } from "./bucket-pages.ts";
import { type HttpAnswer, json, type Page, READ, withHeaders } from "./page-server.ts";
import { type ExplainQuestion, readExplainQuestion } from "./read-questions.ts";
import type { StateView } from "./state-json.ts";
import type { Tokens } from "./tokens.ts";
import { answerTop, type TopSource } from "./top-page.ts";

/** Told of every use and every refusal; must not throw. */
export interface AdminWatch {
  used(action: AdminAction, outcome: Exclude<AdminOutcome, "refused">): void;
  refused(action: AdminAction, peer: string, reason: string): void;
  audited(entry: AuditEntry): void;
}

export interface GuardedSources {
  /** Returns or resolves to a report, which goes out as JSON. A RequestError that it throws becomes a 400. */
  readonly explain: (question: ExplainQuestion) => unknown;
  readonly buckets: BucketSource;
  /** What is wrong now, and the counters. */
  readonly state: () => Promise<StateView>;
  readonly top: TopSource;
  readonly tokens: Tokens;
  readonly watch: AdminWatch;
}

/** Longest body of a question to one of these pages. */
const QUESTION_BYTES_MAX = 262_144;

const POST = ["POST"] as const;

const HELP: Readonly<Record<string, readonly [AdminAction, Page["methods"], string]>> = {
  "/state": ["state", READ, "what is wrong now and since when, and what each rule has counted"],
  "/explain": ["explain", POST, "POST a domain and descriptors, learn which rules match and why"],
  "/buckets/peek": ["peek", POST, "POST a domain and descriptors, see what is left in their buckets"],
  "/buckets/reset": ["reset", POST, "POST the same, reset their buckets"],
  "/top": ["top", READ, "who asks and who is refused; ?window=minute|hour&by=refused|asked&keys=20"],
};

/** The pages by path. A body may have QUESTION_BYTES_MAX bytes, and no more than `bodyBytesMax`. */
export function guardedPages(sources: GuardedSources, bodyBytesMax: number): ReadonlyMap<string, Page> {
  const bytesMax = Math.min(bodyBytesMax, QUESTION_BYTES_MAX);
  const access: Page = {
    methods: READ,
    help: "whether the pages below want a token of this caller",
    answer: (request) => json(200, accessView(request, sources.tokens)),
  };
  const guarded = Object.entries(HELP).map(([path, [action, methods, help]]): [string, Page] => [
    path,
    { methods, help, answer: (request) => guard(action, request, sources, bytesMax) },
  ]);
  return new Map([["/access", access], ...guarded]);
}

/** Not counted and not logged as a refusal: the operator's page asks this to avoid being refused. */
function accessView(request: IncomingMessage, tokens: Tokens): object {
  if (tokens.isAsked) return { wants: "token" };
  const judgement = judgeAccess(request, tokens);
  return "refusal" in judgement ? { wants: "another caller", says: judgement.refusal.body } : { wants: "nothing" };
}

async function guard(
  action: AdminAction,
  request: IncomingMessage,
  sources: GuardedSources,
  bytesMax: number,
): Promise<HttpAnswer> {
  const { tokens, watch } = sources;
  const judgement = judgeAccess(request, tokens);
  if ("refusal" in judgement) {
    watch.refused(action, judgement.peer, judgement.reason);
    // The rest of the request is not read, so the connection can't be used again.
    return withHeaders(judgement.refusal, { connection: "close" });
  }
  try {
    const answer = await answerTo(action, request, judgement.caller, sources, bytesMax);
    watch.used(action, answer.status === 200 ? "done" : "failed");
    return answer;
  } catch (error) {
    watch.used(action, "failed");
    throw error;
  }
}

async function answerTo(
  action: AdminAction,
  request: IncomingMessage,
  caller: Caller,
  { explain, buckets, state, top, watch }: GuardedSources,
  bytesMax: number,
): Promise<HttpAnswer> {
  if (action === "state") return json(200, await state());
  if (action === "top") return answerTop(request.url ?? "", top);
  if (action === "explain") return json(200, await explain(readExplainQuestion(await readBody(request, bytesMax))));
  return answerBuckets(action, request, caller, { bytesMax, buckets, audit: (entry) => watch.audited(entry) });
}
