// Makes the JSON of /top.

import { isoTime } from "../../../base/units.ts";
import { base64Unless, textOf } from "../../../engine/domain/request.ts";
import { entriesOf } from "./key-text.ts";
import { firstOf, type TopOrder, type TopRow, type TopSummary } from "./summary.ts";
import { TOP_WINDOWS, type TopWindow } from "./top-keys.ts";
import { QUIET_US } from "./tracked-keys.ts";

/** A question of `GET /top`. */
export interface TopQuestion {
  readonly window: TopWindow;
  readonly by: TopOrder;
  readonly keys: number;
  /** `process`: of the asked process alone, as it counts. */
  readonly scope?: "process" | undefined;
}

/** The JSON for those who add up several processes themselves. */
export interface ProcessTop {
  readonly instance: string;
  readonly at: string;
  readonly summary: TopSummary;
}

/** The JSON. */
export type TopView = ReturnType<typeof topView>;
export type TopKey = TopView["keys"][number];

/** `of`: how many processes these are, if there are several. */
export function topView(
  { window, by, keys }: TopQuestion,
  { fromUs, rows, restAsked, restRefused, asked, refused }: TopSummary,
  nowUs: number,
  of: { readonly processes?: number } = {},
) {
  const listed = firstOf(rows, by, keys);
  const others = rows.filter((row) => !listed.includes(row));
  return {
    at: isoTime(nowUs),
    from: isoTime(fromUs),
    window,
    window_seconds: TOP_WINDOWS[window],
    by,
    asked,
    refused,
    keys: listed.map((row) => rowView(row, nowUs)),
    // The most that a key that is not listed can have.
    rest_asked: others.reduce((most, row) => Math.max(most, row.asked.most), restAsked),
    rest_refused: others.reduce((most, row) => Math.max(most, row.refused.most), restRefused),
    ...of,
  };
}

function rowView(row: TopRow, nowUs: number) {
  const { domain, rule, limit, text, asked, refused, refusedSinceUs, lastRefusedUs, trend = [] } = row;
  const isRefused = lastRefusedUs !== null && refusedSinceUs !== null && nowUs - lastRefusedUs <= QUIET_US;
  const askedOvercount = asked.most - asked.least;
  const refusedOvercount = refused.most - refused.least;
  const base64 = base64Unless(text.key);
  const entries = entriesOf(text);
  return {
    domain: textOf(domain),
    rule: textOf(rule),
    limit: textOf(limit),
    key: textOf(text.key),
    ...(base64 === undefined ? {} : { key_base64: base64 }),
    ...(entries === undefined ? {} : { descriptor: entries.map(({ key, value }) => entryView(key, value)) }),
    asked: asked.most,
    refused: refused.most,
    overcount: Math.max(askedOvercount, refusedOvercount),
    asked_overcount: askedOvercount,
    refused_overcount: refusedOvercount,
    refused_since: isRefused ? isoTime(refusedSinceUs) : null,
    last_refused: lastRefusedUs === null ? null : isoTime(lastRefusedUs),
    // Refusals in each sixth of the window, and in the time since the last of them.
    trend,
    // These are refusals of a caller who is blocked at run time, or was in this window.
    ...(text.isBlocked ? { blocked: true } : {}),
  };
}

// Bytes that are not UTF-8 are shown as U+FFFD, with the value in base64 alongside.
function entryView(key: string, value: string) {
  const base64 = base64Unless(value);
  return { key: textOf(key), value: textOf(value), ...(base64 === undefined ? {} : { value_base64: base64 }) };
}
