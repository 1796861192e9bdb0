// What the HTTP pages show, as plain objects and text. Pure.

import { isoTime } from "../../engine/base/units.ts";
import { visible } from "../../engine/base/visible.ts";
import { ALGORITHM_NAMES, type Limit, UNIT_NAMES } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import { Kind } from "../../engine/domain/take.ts";
import type { DomainRules, Level, Rule, RuleSet } from "../../engine/rules/rule-set.ts";
import { rulesOfTiers } from "../../engine/rules/tiers.ts";
import type { RuleSource, RulesFailure } from "../../rule-sources/files/rule-source.ts";
import type { XdsStatus } from "../../rule-sources/xds/xds-rules.ts";
import type { UnmatchedEntry } from "../telemetry/domain-book.ts";

/** Where rules come from, and what they leave without a limit. */
interface RulesState {
  /** The folder of the rule files; undefined if none are read. */
  readonly directory: string | undefined;
  /** The control plane that sends the rules; undefined if they come from files. */
  readonly plane?: XdsStatus | undefined;
  readonly source: Pick<RuleSource, "current" | "status">;
  /** Descriptors that met no rule so far, by domain; domains without rules count too. */
  readonly unmatched: Iterable<UnmatchedEntry>;
}

/** Parts of `/config` that are not always present: certificates, snapshots of the memory store, workers. */
interface ConfigParts {
  readonly tls?: object | undefined;
  readonly snapshot?: object | undefined;
  readonly workers?: readonly object[] | undefined;
}

/** The JSON of `/config`. `settings` must come redacted. */
export function configView(
  state: RulesState,
  settings: Readonly<Record<string, string>>,
  { tls, snapshot, workers }: ConfigParts = {},
): object {
  const rules = state.source.current;
  const { loadedAtUs, lastError } = state.source.status();
  return {
    rules: {
      directory: state.directory ?? null,
      ...(state.plane === undefined ? {} : { control_plane: planeView(state.plane) }),
      version: rules?.version ?? null,
      hash: rules?.hash ?? null,
      loaded_at: loadedAtUs === undefined ? null : isoTime(loadedAtUs),
      files: rules?.files ?? [],
      domains: rules === undefined ? [] : [...rules.domains.values()].map(domainView),
      unmatched_descriptors: [...state.unmatched].map(unmatchedView),
      warnings: rules?.warnings ?? [],
      last_error:
        lastError === undefined
          ? null
          : { at: isoTime(lastError.atUs), message: lastError.message, problems: lastError.problems },
    },
    ...(tls === undefined ? {} : { tls }),
    ...(snapshot === undefined ? {} : { snapshot }),
    ...(workers === undefined ? {} : { workers }),
    settings,
  };
}

/** The JSON of `/readyz`: `reasons` by part why the process is not ready, `degraded` by part what is wrong nevertheless. */
export function readinessView(
  troubles: ReadonlyMap<string, string>,
  notes: ReadonlyMap<string, string>,
  rulesFailure: RulesFailure | undefined,
): object {
  const wrong = new Map(notes);
  if (rulesFailure !== undefined) wrong.set("rules", `new rules rejected (see /config): ${rulesFailure.message}`);
  const status = troubles.size > 0 ? "not ready" : wrong.size > 0 ? "ready, degraded" : "ready";
  const degraded = Object.fromEntries([...wrong].filter(([part]) => !troubles.has(part)));
  return { status, reasons: Object.fromEntries(troubles), degraded };
}

/** The lines of `/rlconfig`: one per limit, in the order of the files; the fields of envoyproxy/ratelimit come first. */
export function* limitLines(rules: RuleSet | undefined): Generator<string> {
  for (const domain of rules?.domains.values() ?? []) {
    const name = visible(textOf(domain.domain));
    yield* levelLines(domain.root, name, false);
    if (domain.globalLimit === undefined) continue;
    const { limit } = domain.globalLimit;
    yield `${name}: ${limitText(limit)}, shadow_mode: false, quota_mode: false, global_limit: true${ownText(limit)}\n`;
  }
}

/** The lines of the debug port's `/rlconfig`: only the fields of envoyproxy/ratelimit, one line per limit. */
export function* referenceLimitLines(rules: RuleSet): Generator<string> {
  for (const domain of rules.domains.values()) yield* levelLines(domain.root, visible(textOf(domain.domain)), true);
}

function planeView(plane: XdsStatus): object {
  const { lastRefusal } = plane;
  return {
    server: plane.server,
    node: plane.node,
    state: plane.state,
    version: plane.version ?? null,
    heard_at: plane.heardAtUs === undefined ? null : isoTime(plane.heardAtUs),
    from_cache: plane.isKept,
    streams: plane.streams,
    answers: plane.answers,
    refusals: plane.refusals,
    last_end: plane.lastEnd ?? null,
    last_refusal:
      lastRefusal === undefined
        ? null
        : { at: isoTime(lastRefusal.atUs), version: lastRefusal.version, message: lastRefusal.message },
  };
}

function unmatchedView({ domain, hasRules, descriptors, exampleKeys }: UnmatchedEntry): object {
  return { domain, has_rules: hasRules, descriptors, ...(hasRules ? { example_keys: exampleKeys } : {}) };
}

function domainView(domain: DomainRules): object {
  return {
    domain: textOf(domain.domain),
    files: domain.files,
    limits: domain.limits.length,
    global_limit: domain.globalLimit !== undefined,
    cost_entries: [...domain.costEntries].map(textOf),
  };
}

function* levelLines(level: Level, parent: string, isReference: boolean): Generator<string> {
  for (const rule of level.rules) {
    const name = nameOf(rule, parent);
    const modes = `shadow_mode: ${rule.kind === Kind.shadow}, quota_mode: ${rule.isQuota}`;
    for (const { isUnlimited, unlimitedRequests, limits } of rulesOfTiers(rule)) {
      const own = isReference ? `${unlimitedRequests}, ${modes}` : `0, ${modes}, unlimited: true`;
      if (isUnlimited) yield `${name}: unit=UNKNOWN requests_per_unit=${own}\n`;
      for (const limit of limits)
        yield `${name}: ${limitText(limit)}, ${modes}${isReference ? "" : ownText(limit, rule)}\n`;
    }
    if (rule.children !== undefined) yield* levelLines(rule.children, name, isReference);
  }
}

function nameOf(rule: Rule, parent: string): string {
  return visible(`${parent}.${textOf(rule.key)}${rule.patternText === "" ? "" : `_${textOf(rule.patternText)}`}`);
}

function limitText(limit: Limit): string {
  return `unit=${UNIT_NAMES[limit.shownUnit].toUpperCase()} requests_per_unit=${limit.shownAmount}`;
}

function ownText(limit: Limit, rule?: Rule): string {
  const parts = [
    `algorithm: ${ALGORITHM_NAMES[limit.algorithm]}`,
    `window: ${limit.calendar?.words ?? `${limit.windowSeconds}s`}`,
  ];
  if (limit.burst !== limit.amount) parts.push(`burst: ${limit.burst}`);
  if (limit.names.readableName !== "") parts.push(`name: ${visible(textOf(limit.names.readableName))}`);
  if (rule?.isPostPaid === true) parts.push("post_paid: true");
  if (limit.priority !== undefined) {
    const { entry, values, percent } = limit.priority;
    parts.push(
      `priority: ${percent}% for ${[...values].map((value) => visible(textOf(`${entry}=${value}`))).join(" or ")}`,
    );
  }
  return parts.map((part) => `, ${part}`).join("");
}
