// Compares answers with recorded ones, whose tokens stand for what depends on the time; and the clock of the service that answers.

import type { Clock } from "../../src/base/clock.ts";
import { UNIT_NAMES, UNIT_SECONDS } from "../../src/engine/domain/limit.ts";
import type { RecordedKey } from "./recorded.ts";

/** Seconds of a unit by its name in capitals. */
export function secondsOfUnit(name: string): number {
  const index = UNIT_NAMES.findIndex((unit) => unit.toUpperCase() === name);
  const seconds = UNIT_SECONDS[index];
  if (seconds === undefined || seconds === 0) throw new RangeError(`no unit ${name}`);
  return seconds;
}

/**
 * When the cases begin: in the first hour of a day its window and the day's begin at the same second, and a day may be the first of a week
 * or a year. Limits with two such units would count on one key, in envoyproxy/ratelimit as here. No window that cases use turns for 55 minutes.
 */
const BEGIN_MS = Date.UTC(2026, 10, 25, 14, 5);
const loadedAtMs = performance.now();

/** The service's clock. */
export const clock: Clock = { nowUs: () => Math.floor((BEGIN_MS + performance.now() - loadedAtMs) * 1000) };

export function nowSeconds(): number {
  return Math.floor(clock.nowUs() / 1_000_000);
}

/** Puts the start of the current window in place of every `{HOUR}`. */
export function withWindows(text: string): string {
  return text.replace(/\{([A-Z]+)\}/g, (_, unit: string) => {
    const seconds = secondsOfUnit(unit);
    return String(nowSeconds() - (nowSeconds() % seconds));
  });
}

/** What differs, one line each; empty if the answer, to what was asked at `askedS` or later, is as recorded. */
export function differences(expected: unknown, got: unknown, at = "answer", askedS = nowSeconds()): string[] {
  if (typeof expected === "string" && expected.startsWith("{reset:")) {
    return isReset(expected.slice(7, -1), got, askedS) ? [] : [line(at, expected, got)];
  }
  if (Array.isArray(expected) && Array.isArray(got)) {
    const length = Math.max(expected.length, got.length);
    return Array.from({ length }, (_, i) => differences(expected[i], got[i], `${at}[${i}]`, askedS)).flat();
  }
  if (isObject(expected) && isObject(got)) {
    const names = new Set([...Object.keys(expected), ...Object.keys(got)]);
    return [...names].flatMap((name) => differences(expected[name], got[name], `${at}.${name}`, askedS));
  }
  return Object.is(expected, got) ? [] : [line(at, expected, got)];
}

/** What differs between the recorded keys of Redis and those found, which may live `slackS` seconds longer. */
export function keyDifferences(
  expected: readonly RecordedKey[],
  found: readonly { readonly key: string; readonly value: string; readonly ttl: number }[],
  slackS = 0,
): string[] {
  const byName = (keys: readonly { readonly key: string; readonly value: string }[]) =>
    Object.fromEntries(keys.map(({ key, value }) => [withWindows(key), value]));
  const wrong = differences(byName(expected), byName(found), "redis");
  for (const { key, ttl } of expected) {
    const lives = found.find((one) => one.key === withWindows(key))?.ttl;
    if (lives !== undefined && !isLifetime(ttl, lives, slackS)) wrong.push(line(`lifetime of ${key}`, ttl, lives));
  }
  return wrong;
}

function isLifetime(recorded: string, seconds: number, slackS: number): boolean {
  const [, unit, jitter] = /^\{([A-Z]+)\}\+(\d+)$/.exec(recorded) ?? [];
  if (unit === undefined) return recorded === "none" ? seconds < 0 : false;
  const length = secondsOfUnit(unit);
  return seconds >= length - 5 && seconds <= length + Number(jitter) + slackS;
}

// Seconds come as a Duration, as its JSON form, or as the value of a header.
function isReset(unit: string, got: unknown, askedS: number): boolean {
  const length = secondsOfUnit(unit);
  const seconds = isObject(got) ? Number(got.seconds) : Number(/^(\d+)s?$/.exec(String(got))?.[1]);
  if (isObject(got) && got.nanos !== 0) return false;
  // Decided at some second between the question and now; a second of difference is the rounding.
  for (let decidedS = askedS - 1; decidedS <= nowSeconds() + 1; decidedS++) {
    if (seconds === length - (decidedS % length)) return true;
  }
  return false;
}

function line(at: string, expected: unknown, got: unknown): string {
  return `${at}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(got)?.slice(0, 300)}`;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
