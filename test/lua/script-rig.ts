// Calls the script of lua/ on a real server without the store in between.

import { Algorithm } from "../../src/engine/domain/limit.ts";
import { packNumbers, unpackNumbers } from "../../src/stores/redis/redis-batch.ts";
import { loadScripts } from "../../src/stores/redis/scripts.ts";
import { regularWindows } from "../support/builders.ts";
import type { RedisServer } from "../support/redis-server.ts";

export const SCRIPTS = loadScripts();

/** 2026-01-01T00:00:00Z: a whole day, so windows up to a day begin there. */
export const START_US = Date.UTC(2026, 0, 1) * 1000;

/** A limit as the script gets it; of a calendar window the edges of windows of so many seconds around the call's time. */
export interface ScriptLimit {
  readonly algorithm: number;
  readonly amount: number;
  readonly burst?: number;
  readonly seconds?: number;
  readonly debtMax?: number;
}

/** A take as the script gets it; key and limit by their place, counted from 1. */
export interface ScriptTake {
  readonly key?: number;
  readonly limit?: number;
  readonly descriptor?: number;
  readonly kind?: number;
  readonly mode?: number;
  readonly cost?: number;
}

/** A group as the script gets it. */
export interface ScriptGroup {
  readonly takes: readonly ScriptTake[];
  readonly latestUs?: number;
  readonly hasSpareQuota?: boolean;
}

/** One call of the script. `timeUs` 0 is the server's own time. */
export interface ScriptCall {
  readonly keys: readonly string[];
  readonly limits: readonly ScriptLimit[];
  readonly groups: readonly ScriptGroup[];
  readonly timeUs?: number;
}

/** A take's part of the reply. */
export interface ScriptAnswer {
  readonly outcome: number;
  readonly isPaid: boolean;
  readonly remaining: number;
  readonly wait: number;
  readonly reset: number;
  readonly paidAtUs: number;
  readonly capped: number;
}

/** The reply of one call. */
export interface ScriptReply {
  readonly timeUs: number;
  readonly damaged: number;
  readonly groups: readonly { readonly verdict: number; readonly answers: readonly ScriptAnswer[] }[];
}

/** Numbers as the script packs them. */
export function numbersOf(...numbers: readonly number[]): Buffer {
  return Buffer.from(packNumbers(numbers), "latin1");
}

/** The arguments that follow EVAL's text. */
export function argumentsOf(call: ScriptCall): (string | Buffer)[] {
  const limits = call.limits.flatMap(({ algorithm, amount, burst = amount, seconds = 1, debtMax = burst * 10 }) =>
    algorithm === Algorithm.calendarWindow
      ? [algorithm, amount, ...edgesOf(seconds, call.timeUs ?? START_US)]
      : [algorithm, amount, burst, seconds, debtMax],
  );
  const groups = call.groups.flatMap(({ takes, latestUs = 0, hasSpareQuota = false }) => [
    takes.length,
    latestUs,
    hasSpareQuota ? 1 : 0,
    ...takes.flatMap(({ key = 1, limit = 1, descriptor = 0, kind = 0, mode = 0, cost = 1 }) => [
      key,
      limit,
      descriptor,
      kind,
      mode,
      cost,
    ]),
  ]);
  return [
    String(call.keys.length),
    ...call.keys,
    ...[[call.timeUs ?? START_US], limits, groups].map((numbers) => numbersOf(...numbers)),
  ];
}

/** Windows of that length around the time, which may be the machine's. */
function edgesOf(seconds: number, timeUs: number): readonly number[] {
  const windows = regularWindows(seconds);
  windows.turnTo(timeUs === 0 ? Date.now() * 1000 : timeUs);
  return [windows.startUs, windows.endUs, windows.nextEndUs];
}

/** Runs the script and reads its reply, which must be whole numbers only. */
export async function runScript(server: RedisServer, call: ScriptCall): Promise<ScriptReply> {
  const reply = unpackNumbers(await server.commandForBytes("EVAL", SCRIPTS.takes.text, ...argumentsOf(call)));
  if (reply === undefined || !reply.every((item) => Number.isSafeInteger(item))) {
    throw new TypeError(`not a reply of whole numbers: ${JSON.stringify(reply)}`);
  }
  const numbers = reply;
  let at = 2;
  const groups = call.groups.map(({ takes }) => {
    const verdict = numbers[at] ?? -1;
    at++;
    if (verdict === 3) return { verdict, answers: [] };
    const start = at;
    at += takes.length * 6;
    return { verdict, answers: takes.map((_, index) => answerAt(numbers, start + index * 6)) };
  });
  if (at !== numbers.length) throw new RangeError(`reply of ${numbers.length} numbers, of which ${at} were read`);
  return { timeUs: numbers[0] ?? 0, damaged: numbers[1] ?? 0, groups };
}

/** The only answer of a call with one group of one take. */
export async function runOne(server: RedisServer, call: ScriptCall): Promise<ScriptAnswer> {
  const answer = (await runScript(server, call)).groups[0]?.answers[0];
  if (answer === undefined) throw new RangeError("no answer");
  return answer;
}

function answerAt(numbers: readonly number[], at: number): ScriptAnswer {
  const [status = 0, remaining = 0, wait = 0, reset = 0, paidAtUs = 0, capped = 0] = numbers.slice(at, at + 6);
  return { outcome: status % 4, isPaid: status >= 4, remaining, wait, reset, paidAtUs, capped };
}
