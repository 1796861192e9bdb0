// GET /top: the keys that ask most and that are refused most. Reads the query string; telemetry/top makes the answer.

import { visible } from "../../engine/base/visible.ts";
import { TOP_ORDERS, type TopOrder } from "../telemetry/top/summary.ts";
import { TOP_WINDOWS, type TopWindow } from "../telemetry/top/top-keys.ts";
import type { TopQuestion } from "../telemetry/top/top-view.ts";
import { type HttpAnswer, json, text } from "./page-server.ts";

/** Makes the page's JSON; undefined with TOP_KEYS=0. */
export type TopSource = ((question: TopQuestion) => Promise<object>) | undefined;

/** Most keys of one answer. */
const KEYS_MAX = 100;
const WINDOWS = Object.keys(TOP_WINDOWS) as TopWindow[];

/** Answers the query string: 400 if it can't be read, 404 if nothing is counted. */
export async function answerTop(url: string, top: TopSource): Promise<HttpAnswer> {
  if (top === undefined) return text(404, "404 nothing is counted here: TOP_KEYS is 0\n");
  const question = readQuestion(new URLSearchParams(url.split("?")[1] ?? ""));
  return typeof question === "string" ? text(400, `400 ${question}\n`) : json(200, await top(question));
}

/** The question, or a text that says what is wrong with the query string. */
function readQuestion(asked: URLSearchParams): TopQuestion | string {
  const given: Record<string, string> = { window: "minute", by: "refused", keys: "20", scope: "" };
  for (const [name, value] of asked) {
    if (!Object.hasOwn(given, name)) return `expected window, by, keys or scope, got ${visible(name)}`;
    given[name] = value;
  }
  const window = WINDOWS.find((each) => each === given.window);
  if (window === undefined) return `expected ${WINDOWS.join(" or ")} as window, got ${visible(given.window ?? "")}`;
  const by = TOP_ORDERS.find((each): each is TopOrder => each === given.by);
  if (by === undefined) return `expected ${TOP_ORDERS.join(" or ")} as by, got ${visible(given.by ?? "")}`;
  const scope = given.scope === "process" ? given.scope : undefined;
  if (scope === undefined && given.scope !== "") return `expected process as scope, got ${visible(given.scope ?? "")}`;
  const keys = /^\d{1,3}$/.test(given.keys ?? "") ? Number(given.keys) : 0;
  if (keys >= 1 && keys <= KEYS_MAX) return { window, by, keys, scope };
  return `expected a whole number from 1 to ${KEYS_MAX} as keys, got ${visible(given.keys ?? "")}`;
}
