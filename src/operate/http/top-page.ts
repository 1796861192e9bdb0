// GET /top: the keys that ask most and that are refused most. Reads the query string; telemetry/top makes the answer.

import type { IncomingMessage } from "node:http";
import { TOP_ORDERS } from "../telemetry/top/summary.ts";
import { TOP_WINDOWS, type TopWindow } from "../telemetry/top/top-keys.ts";
import type { TopQuestion } from "../telemetry/top/top-view.ts";
import { type HttpAnswer, json, text } from "./page-server.ts";
import { countIn, readQuery, wordIn } from "./read-questions.ts";

/** Makes the page's JSON; undefined with TOP_KEYS=0. */
export type TopSource = ((question: TopQuestion) => Promise<object>) | undefined;

/** Most keys of one answer. */
const KEYS_MAX = 100;
const WINDOWS = Object.keys(TOP_WINDOWS) as TopWindow[];

/** 404 if nothing is counted. Rejects with RequestError if the query can't be read. */
export async function answerTop(request: IncomingMessage, top: TopSource): Promise<HttpAnswer> {
  if (top === undefined) return text(404, "404 nothing is counted here: TOP_KEYS is 0\n");
  return json(200, await top(readQuestion(readQuery(request, ["window", "by", "keys", "scope"]))));
}

function readQuestion(query: URLSearchParams): TopQuestion {
  return {
    window: wordIn(query, "window", WINDOWS) ?? "minute",
    by: wordIn(query, "by", TOP_ORDERS) ?? "refused",
    keys: countIn(query, "keys", KEYS_MAX, 20),
    scope: wordIn(query, "scope", ["process"]),
  };
}
