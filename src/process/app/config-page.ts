// Gathers what GET /config shows: the rules, where they come from, what they leave without a limit, and the settings.

import { isoTime } from "../../base/units.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { DomainRules } from "../../engine/rules/rule-set.ts";
import type { XdsStatus } from "../../rule-sources/xds/xds-rules.ts";
import { describeSettings } from "../../settings/settings.ts";
import type { AppParts } from "./app-parts.ts";
import { snapshotView } from "./store-watch.ts";
import { tlsView } from "./tls-watch.ts";

/** Makes the JSON of GET /config, which anybody may read: secrets are redacted. */
export async function readConfig(parts: AppParts): Promise<object> {
  const { settings, reloader, xds, calls, running, snapshots } = parts;
  const rules = reloader.current;
  const { loadedAtUs, lastError } = reloader.status();
  const tls = tlsView(running.tls);
  const snapshot = snapshotView(snapshots, settings.memorySnapshot);
  return {
    rules: {
      /** Null if no files are read. */
      directory: settings.readsFiles ? settings.rulesDir : null,
      ...(xds && { control_plane: planeView(xds.xdsStatus()) }),
      version: rules?.version ?? null,
      hash: rules?.hash ?? null,
      loaded_at: loadedAtUs === undefined ? null : isoTime(loadedAtUs),
      files: rules?.files ?? [],
      domains: [...(rules?.domains.values() ?? [])].map(domainView),
      /** Descriptors that met no rule so far, by domain; the keys of one of them. */
      unmatched_descriptors: [...calls.domains.entries()].map(({ domain, hasRules, descriptors, exampleKeys }) => {
        return { domain, has_rules: hasRules, descriptors, ...(hasRules ? { example_keys: exampleKeys } : {}) };
      }),
      warnings: rules?.warnings ?? [],
      last_error: lastError
        ? { at: isoTime(lastError.atUs), message: lastError.message, problems: lastError.problems }
        : null,
    },
    ...(tls && { tls }),
    ...(snapshot && { snapshot }),
    settings: describeSettings(settings),
  };
}

function planeView(plane: XdsStatus): object {
  const { lastRefusal: refusal } = plane;
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
    last_refusal: refusal ? { at: isoTime(refusal.atUs), version: refusal.version, message: refusal.message } : null,
  };
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
