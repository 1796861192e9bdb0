// Limits at run time in words: whose they are, what was done last, which rule they change. Pure.

import { textOf } from "../../engine/domain/request.ts";
import { type effectOf, writtenEntry } from "../../engine/limiter/runtime-check.ts";
import { shownEntry } from "../../engine/rules/explain.ts";
import { type RuntimeChange, readKey } from "../../engine/runtime/runtime-limit.ts";
import type { RuntimeRow } from "../../engine/runtime/runtime-table.ts";
import type { ChangedLimit } from "../../operate/telemetry/event-book.ts";

type Effect = ReturnType<typeof effectOf> | undefined;

/** A key that can't be read is shown as it is kept. */
export function keyView(key: string) {
  const { domain, entries } = readKey(key) ?? { domain: key, entries: [] };
  return { domain: textOf(domain), entries: entries.map(([name, value]) => shownEntry(writtenEntry(name, value))) };
}

/** The id of the rule that it changes, if one is known. */
export function ruleOf({ parts }: RuntimeRow, effect: Effect): readonly string[] {
  return effect !== undefined && "rule" in effect ? [textOf(`${parts[0]}/${effect.rule.path}`)] : [];
}

/** The change that made the row what it is. */
export function lastView({ key, limit, atUs }: RuntimeRow): ChangedLimit {
  const { entries } = keyView(key);
  const does = limit === undefined ? "was changed" : DONE[limit.change.kind];
  const caller = entries.map((entry) => `${entry.key}=${entry.value}`).join(",");
  return { atUs, says: `${caller} ${does}`, who: limit?.who ?? "", note: limit?.note || undefined };
}

const DONE: Readonly<Record<RuntimeChange["kind"], string>> = {
  amounts: "got other amounts",
  use: "got another tier",
  block: "was blocked",
  exempt: "was exempted",
  none: "was left to its rule again",
};

export function rowName({ key }: RuntimeRow): string {
  const { domain, entries } = keyView(key);
  return `${domain} ${entries.map((entry) => `${entry.key}=${entry.value}`).join(",")}`;
}

/** Why it does nothing; undefined if it does something. */
export function whyIdle(effect: Effect): string | undefined {
  return effect !== undefined && "says" in effect && effect.doesNothing ? effect.says : undefined;
}
