// The answers of /top of several processes as one, as mergeSummaries joins workers: counts lie between a least and a most, and a key that a
// process does not list has at most that process's rest there.

import { getOrInsert } from "../../engine/base/get-or-insert.ts";
import type { TopAnswer } from "./top-text.ts";

type Key = TopAnswer["keys"][number];
type Counted = "asked" | "refused";

/** The first `keysMax` keys of all processes that answered together; undefined without an answer. */
export function mergeTops(answers: readonly TopAnswer[], keysMax: number): TopAnswer | undefined {
  const [first] = answers;
  if (first === undefined) return undefined;
  const found = new Map<string, Key[]>();
  for (const key of answers.flatMap(({ keys }) => keys)) getOrInsert(found, nameOf(key), () => []).push(key);
  const rest = { asked: sumOf(answers, "rest_asked"), refused: sumOf(answers, "rest_refused") };
  const merged = [...found.values()].map((same) => mergedKey(same, answers, rest));
  const leastOf = (key: Key) => key[first.by] - key[`${first.by}_overcount`];
  merged.sort((one, other) => leastOf(other) - leastOf(one) || other[first.by] - one[first.by]);
  const others = merged.slice(keysMax);
  return {
    at: last(answers.map(({ at }) => at)),
    from: last(answers.map(({ from }) => from)),
    window: first.window,
    by: first.by,
    asked: sumOf(answers, "asked"),
    refused: sumOf(answers, "refused"),
    keys: merged.slice(0, keysMax),
    rest_asked: others.reduce((most, { asked }) => Math.max(most, asked), rest.asked),
    rest_refused: others.reduce((most, { refused }) => Math.max(most, refused), rest.refused),
    processes: answers.length,
  };
}

function mergedKey(same: readonly Key[], answers: readonly TopAnswer[], rest: Readonly<Record<Counted, number>>): Key {
  const [key] = same as readonly [Key];
  const listing = answers.filter(({ keys }) => same.some((each) => keys.includes(each)));
  const most = (name: Counted) => sumOf(same, name) + rest[name] - sumOf(listing, `rest_${name}`);
  const over = (name: Counted) => most(name) - sumOf(same, name) + sumOf(same, `${name}_overcount`);
  const since = same.flatMap(({ refused_since: at }) => at ?? []).sort();
  const refusals = same.flatMap(({ last_refused: at }) => at ?? []);
  return {
    ...key,
    asked: most("asked"),
    refused: most("refused"),
    overcount: Math.max(over("asked"), over("refused")),
    asked_overcount: over("asked"),
    refused_overcount: over("refused"),
    refused_since: since[0] ?? null,
    last_refused: refusals.length === 0 ? null : last(refusals),
  };
}

function nameOf({ domain, rule, limit, key, key_base64: base64 }: Key): string {
  return JSON.stringify([domain, rule, limit, base64 ?? key]);
}

/** The latest of ISO times. */
function last(times: readonly string[]): string {
  return times.reduce((latest, time) => (time > latest ? time : latest), "");
}

function sumOf<Name extends string>(items: readonly Readonly<Record<Name, number>>[], name: Name): number {
  return items.reduce((sum, item) => sum + item[name], 0);
}
