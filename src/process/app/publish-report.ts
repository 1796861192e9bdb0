// Publishes what is wrong with this process, and its top keys, for the others that share its store.

import type { Condition } from "../../operate/condition.ts";
import { topOf } from "../../operate/telemetry/top/summary.ts";
import { REPORT_BYTES_MAX } from "../../stores/process-register.ts";
import type { AppParts } from "./app-parts.ts";
import { ownTop } from "./open-top.ts";
import { INSTANCE } from "./peers.ts";
import { type ProcessReport, REPORT_FORM } from "./process-report.ts";

const PUBLISH_MS = 2_000;
/** Top keys of a report by each count; halved until the report fits. */
const KEYS_MAX = 20;
const CONDITIONS_MAX = 10;
const DETAILS_MAX = 21;
const SAYS_CHARS_MAX = 500;

/** The state of this process. */
export function ownState({ reloader }: Pick<AppParts, "reloader">, conditions: readonly Condition[]) {
  const { loadedAtUs } = reloader.status();
  return { name: INSTANCE, conditions, rules: { hash: reloader.current?.hash ?? null, loadedAtUs } };
}

/** Starts to publish, as one of `running.watches`, if a store is shared. */
export function publishReports(parts: AppParts, conditions: () => readonly Condition[]): void {
  const { presence, running } = parts;
  if (!presence.isShared) return;
  const publish = async () => presence.publish(reportText(parts, conditions()));
  // A store that does not answer is a condition of its own.
  running.watches.push(setInterval(() => void publish().catch(() => undefined), PUBLISH_MS).unref());
}

/** Drops keys first, then conditions, until the report fits. */
function reportText(parts: AppParts, conditions: readonly Condition[]): string {
  const { version, topKeys } = parts;
  const state = ownState(parts, conditions);
  const all = state.conditions.slice(0, CONDITIONS_MAX).map(shortened);
  const asked = { by: "refused", keys: KEYS_MAX } as const;
  const minute = ownTop(parts, { ...asked, window: "minute" });
  const hour = ownTop(parts, { ...asked, window: "hour" });
  let [keys, told] = [KEYS_MAX, all.length];
  for (;;) {
    const top = topKeys === undefined ? null : { minute: topOf(minute, keys), hour: topOf(hour, keys) };
    const report: ProcessReport = { form: REPORT_FORM, version, ...state, conditions: all.slice(0, told), top };
    const text = JSON.stringify(report);
    if (Buffer.byteLength(text) <= REPORT_BYTES_MAX || keys + told === 0) return text;
    if (keys > 0) keys >>= 1;
    else told--;
  }
}

function shortened({ details = [], ...condition }: Condition): Condition {
  const cut = (says: string) => says.slice(0, SAYS_CHARS_MAX);
  return { ...condition, says: cut(condition.says), details: details.slice(0, DETAILS_MAX).map(cut) };
}
