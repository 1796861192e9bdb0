// Makes the dynamic metadata of an answer: which rule refused, and where the answer came from.

import { isRecord } from "../../base/is-record.ts";
import { wayOf } from "../../engine/domain/guarantee.ts";
import {
  ALGORITHM_NAMES,
  type Limit,
  ON_STORE_FAILURE_NAMES,
  OnStoreFailure,
  UNIT_NAMES,
} from "../../engine/domain/limit.ts";
import { type Descriptor, textOf } from "../../engine/domain/request.ts";
import { GLOBAL_DESCRIPTOR, isOver, Outcome, Source, type Take } from "../../engine/domain/take.ts";
import type { LimitCall } from "../../engine/limiter/call.ts";
import { canPassLater, overShadow, resetSecondsOf } from "../../engine/limiter/decision.ts";
import { shownValues } from "../../engine/limiter/shown-values.ts";
import { reasonOf, reasonOfTake } from "./headers.ts";

/**
 * When metadata is sent. `off`: never. `notable`: with refusals, shadowed and degraded answers, unknown domains, and
 * descriptors without a rule. `full`: always, with the reference's fields too. `reference`: always, with the
 * reference's fields alone.
 */
export type MetadataMode = "off" | "notable" | "full" | "reference";

const SOURCE_NAMES: Readonly<Record<Source, string>> = {
  [Source.store]: "store",
  [Source.denialMemory]: "denial_memory",
  [Source.lease]: "lease",
  [Source.local]: "local",
};

/** Sets `call.decision.metadata`, if the mode sends any for this call. */
export function addMetadata(call: LimitCall, mode: MetadataMode): void {
  if (mode === "off") return;
  if (mode === "reference") call.decision.metadata = referenceFields(call, losesMetadata);
  else if (mode === "full") call.decision.metadata = { ...referenceFields(call, keepsAll), ...ownFields(call) };
  else call.decision.metadata = notableFields(call);
}

function notableFields(call: LimitCall): Readonly<Record<string, unknown>> | undefined {
  if (call.wasShadowed || call.policy !== undefined || call.missing !== undefined) return ownFields(call);
  if (call.decision.overLimit) return refusalFields(call);
  if (call.domain === undefined) return ownFields(call);
  return call.unmatched.length > 0 ? unmatchedFields(call.unmatched) : undefined;
}

/**
 * Metadata of passing calls with one descriptor without a rule, by its index. Reused, because such calls may be
 * frequent.
 */
const unmatchedAlone: Readonly<Record<string, unknown>>[] = [];

// Frozen, so that the encoded bytes are cached too (codec.ts).
function unmatchedFields(unmatched: readonly number[]): Readonly<Record<string, unknown>> {
  const [first = 0] = unmatched;
  if (unmatched.length > 1) return { code: "OK", unmatched: [...unmatched] };
  unmatchedAlone[first] ??= Object.freeze({ code: "OK", unmatched: Object.freeze([first]) });
  return unmatchedAlone[first];
}

interface Refusal {
  /** Index of the only descriptor without a rule; -1 if all have one. */
  readonly unmatched: number;
  readonly outcome: Outcome;
  readonly isGlobal: boolean;
  readonly source: Source;
  readonly remaining: number;
  readonly resetSeconds: number;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** The last refusal by each limit: its metadata stays equal for callers who ask again within the same second. */
const lastRefusals = new WeakMap<Limit, Refusal>();

// Frozen, so that the encoded bytes are cached too (codec.ts).
function refusalFields(call: LimitCall): Readonly<Record<string, unknown>> {
  const take = call.governing;
  if (take === undefined || call.unmatched.length > 1 || call.runtime.length > 0) return ownFields(call);
  const unmatched = call.unmatched[0] ?? -1;
  const { limit, outcome, remaining } = take;
  const { source } = call.group;
  const isGlobal = take.descriptor === GLOBAL_DESCRIPTOR;
  const resetSeconds = resetSecondsOf(take);
  const last = lastRefusals.get(limit);
  if (
    last !== undefined &&
    last.remaining === remaining &&
    last.resetSeconds === resetSeconds &&
    last.outcome === outcome &&
    last.source === source &&
    last.isGlobal === isGlobal &&
    last.unmatched === unmatched
  ) {
    return last.fields;
  }
  const fields = Object.freeze(ownFields(call));
  lastRefusals.set(limit, { unmatched, outcome, isGlobal, source, remaining, resetSeconds, fields });
  return fields;
}

function ownFields(call: LimitCall): Record<string, unknown> {
  const take = call.wasShadowed ? (overShadow(call) ?? call.governing) : call.governing;
  const fields: Record<string, unknown> = { code: call.decision.overLimit ? "OVER_LIMIT" : "OK" };
  if (call.domain === undefined) fields.unknown_domain = true;
  if (call.unmatched.length > 0) fields.unmatched = [...call.unmatched];
  if (take !== undefined) Object.assign(fields, fieldsOf(take));
  if (take !== undefined && isOver(take)) fields.reason = reasonOfTake(take);
  const way = take === undefined ? undefined : wayOf(call.group, take);
  if (way !== undefined) fields.way = way;
  if (call.missing !== undefined) {
    fields.missing = textOf(call.missing);
    if (call.refusal === "incomplete") fields.reason ??= reasonOf(call);
  }
  const kind = call.runtime.length === 0 ? undefined : runtimeKind(call, take);
  if (kind !== undefined) fields.runtime_limit = kind;
  if (take?.outcome === Outcome.never) fields.can_never_pass = true;
  if (call.wasShadowed) fields.shadowed = true;
  fields.source = sourceOf(call, take);
  if (call.policy !== undefined) {
    fields.degraded = { policy: ON_STORE_FAILURE_NAMES[call.policy], failure: call.storeFailure?.code ?? "" };
  }
  return fields;
}

/**
 * The kind of the shown descriptor's limit at run time. An exempt caller's descriptor has no take that could be shown.
 */
function runtimeKind({ runtime }: LimitCall, take: Take | undefined): string | undefined {
  const shown = take === undefined ? undefined : runtime[take.descriptor];
  return (shown ?? runtime.find((each) => each?.kind === "exempt"))?.kind;
}

/** Where the answer of the shown take came from, also if another take of the call was decided by a policy. */
function sourceOf(call: LimitCall, take: Take | undefined): string {
  if (call.policy === undefined) return SOURCE_NAMES[call.group.source];
  if (take === undefined) return "policy";
  if (!take.byPolicy) return SOURCE_NAMES[Source.store];
  return take.limit.policy.onStoreFailure === OnStoreFailure.local ? SOURCE_NAMES[Source.local] : "policy";
}

function fieldsOf(take: Take): Record<string, unknown> {
  return {
    rule: textOf(take.limit.names.id),
    // A name that the rule file gives is part of the id already.
    ...(take.limit.names.name === take.limit.names.readableName ? {} : { name: textOf(take.limit.names.readableName) }),
    path: take.descriptor === GLOBAL_DESCRIPTOR ? "global_limit" : textOf(take.limit.names.path),
    algorithm: ALGORITHM_NAMES[take.limit.algorithm],
    remaining: take.remaining,
    ...(canPassLater(take) ? { reset_seconds: resetSecondsOf(take) } : {}),
  };
}

// The reference service's fields: domain, descriptors, hitsAddend, and the metadata of rules that are not over.
function referenceFields(call: LimitCall, isLost: typeof losesMetadata): Record<string, unknown> {
  const { request } = call;
  const fields: Record<string, unknown> = {
    domain: textOf(request.domain),
    descriptors: request.descriptors
      .slice(0, request.descriptorCount)
      .map((descriptor, i) => descriptorFields(descriptor, shownValues(call, i))),
  };
  if (request.hitsAddend !== 0) fields.hitsAddend = request.hitsAddend;
  const metadata = mergedMetadata(call, isLost);
  if (metadata !== undefined) fields.metadata = metadata;
  return fields;
}

function descriptorFields(descriptor: Descriptor, values: readonly string[]): Record<string, unknown> {
  const entries = values.map((value, i) => `${textOf(descriptor.keys[i] as string)}=${textOf(value)}`);
  const fields: Record<string, unknown> = { entries };
  if (descriptor.hasOverride) fields.limit = overrideText(descriptor);
  if (descriptor.hasHits) fields.hitsAddend = descriptor.hits;
  return fields;
}

// The protobuf text form of the override, without zero fields. WEEK is a number, because the enum of the override lacks
// it.
function overrideText(descriptor: Descriptor): string {
  const parts: string[] = [];
  if (descriptor.overrideAmount !== 0) parts.push(`requests_per_unit:${descriptor.overrideAmount}`);
  const unit = descriptor.overrideUnit;
  if (unit !== 0) parts.push(`unit:${unit === 7 ? "7" : (UNIT_NAMES[unit]?.toUpperCase() ?? unit)}`);
  if (descriptor.overrideUnits >= 0)
    parts.push(`unit_multiplier:{${descriptor.overrideUnits === 0 ? "" : `value:${descriptor.overrideUnits}`}}`);
  if (descriptor.overrideAlgorithm !== "")
    parts.push(`algorithm:${JSON.stringify(textOf(descriptor.overrideAlgorithm))}`);
  return parts.join(" ");
}

const keepsAll = () => false;

function losesMetadata({ domain, request }: LimitCall, index: number): boolean {
  return domain?.counters?.losesMetadata(domain, request.descriptors[index] as Descriptor) === true;
}

// Merges in request order; of equal keys the first wins; nested maps merge, lists do not. The rules' own maps are not
// changed.
function mergedMetadata(call: LimitCall, isLost: typeof losesMetadata): Record<string, unknown> | undefined {
  let merged: Record<string, unknown> | undefined;
  for (let i = 0; i < call.request.descriptorCount; i++) {
    const rule = call.rules[i];
    if (rule?.metadata === undefined || rule.isUnlimited || call.decision.statuses[i]?.overLimit) continue;
    if (isLost(call, i)) continue;
    merged = mergeUnder(merged ?? {}, rule.metadata);
  }
  return merged;
}

function mergeUnder(
  first: Readonly<Record<string, unknown>>,
  second: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const merged: Record<string, unknown> = { ...second, ...first };
  for (const [key, value] of Object.entries(first)) {
    const other = second[key];
    if (isRecord(value) && isRecord(other)) merged[key] = mergeUnder(value, other);
  }
  return merged;
}
