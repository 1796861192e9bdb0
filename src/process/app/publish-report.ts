// Publishes what is wrong with this process, and its top keys, for the others that share its store.

import type { Condition } from "../../operate/condition.ts";
import { joinConditions, type ProcessState } from "../../operate/http/join-conditions.ts";
import { topOf } from "../../operate/telemetry/top/summary.ts";
import { REPORT_BYTES_MAX } from "../../stores/runtime-store.ts";
import type { WorkerView } from "../workers/worker-link.ts";
import type { AppParts } from "./app-parts.ts";
import { topOfWorkers } from "./open-top.ts";
import { INSTANCE } from "./peers.ts";
import { type ProcessReport, REPORT_FORM } from "./process-report.ts";

const PUBLISH_MS = 2_000;
/** Top keys of a report by each count; halved until the report fits. */
const KEYS_MAX = 20;
const CONDITIONS_MAX = 10;
const DETAILS_MAX = 21;
const SAYS_CHARS_MAX = 500;

/** The state of this thread, or of each worker. */
export function ownStates(
  { reloader }: Pick<AppParts, "reloader">,
  conditions: readonly Condition[],
  views: readonly WorkerView[] | undefined,
): readonly ProcessState[] {
  const { loadedAtUs } = reloader.status();
  if (views === undefined)
    return [{ name: undefined, conditions, rules: { hash: reloader.current?.hash ?? null, loadedAtUs } }];
  return views.map(({ worker, conditions: own = [], rules = { hash: null } }) => {
    return { name: `worker ${worker}`, conditions: own, rules };
  });
}

/** Joins the states of a process's workers. */
export function stateOfProcess(states: readonly ProcessState[], nowUs: number): ProcessState & { name: string } {
  const [{ rules } = { rules: { hash: null } }] = states;
  return { name: INSTANCE, conditions: joinConditions(states, nowUs), rules };
}

/** Starts to publish, as one of `running.watches`, if this is the thread that reports the process. `conditions` are this thread's. */
export function publishReports(parts: AppParts, conditions: () => readonly Condition[]): void {
  const { runtimeStore, running } = parts;
  const { sync } = parts.runtimeLimits;
  if (runtimeStore === undefined || sync === undefined) return;
  const publish = async () => sync.publish(await reportText(parts, conditions()));
  // A store that does not answer is a condition of its own.
  running.watches.push(setInterval(() => void publish().catch(() => undefined), PUBLISH_MS).unref());
}

/** Drops keys first, then conditions, until the report fits. */
async function reportText(parts: AppParts, conditions: readonly Condition[]): Promise<string> {
  const { clock, version, link, topKeys } = parts;
  const state = stateOfProcess(ownStates(parts, conditions, await link?.views()), clock.nowUs());
  const all = state.conditions.slice(0, CONDITIONS_MAX).map(shortened);
  const asked = { by: "refused", keys: KEYS_MAX } as const;
  const minute = await topOfWorkers(parts, { ...asked, window: "minute" });
  const hour = await topOfWorkers(parts, { ...asked, window: "hour" });
  let [keys, told] = [KEYS_MAX, all.length];
  for (;;) {
    const top = topKeys === undefined ? null : { minute: topOf(minute.top, keys), hour: topOf(hour.top, keys) };
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
