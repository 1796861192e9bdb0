// Writes the table of docs/migrating.md: every variable of envoyproxy/ratelimit and what becomes of it here
// (test/unit/settings/reference-table.test.ts). The names with their defaults come from the caller.

import { FOREIGN } from "../../src/process/settings/foreign-names.ts";
import type { Setting } from "../../src/process/settings/setting.ts";
import { SETTINGS } from "../../src/process/settings/table.ts";
import { cell, defaultOf } from "./settings-page.ts";

/** Settings that are read so that nobody's start fails, and change nothing. */
export const WITHOUT_EFFECT: ReadonlyMap<string, string> = new Map([
  ["RUNTIME_WATCH_ROOT", "a swapped link is noticed as well as an edited file"],
  ["XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "pauses double, and are short again once the control plane has answered"],
]);

/** What to know of settings that are honoured. */
const REMARKS: ReadonlyMap<string, string> = new Map([
  ["BACKEND_TYPE", "`memcache` is refused; use `redis`, `postgres` or `memory`"],
  ["CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "read again for every stream, as its key and the authorities are"],
  ["CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "only these authorities are trusted"],
  ["DEBUG_HOST", "the pages have no login: give an address that only you reach"],
  ["DEBUG_PORT", "`/rlconfig` and `/stats`; there is no profiling"],
  ["DISABLE_STATS", "means statsd; metrics for Prometheus stay"],
  ["EXPIRATION_JITTER_MAX_SECONDS", "0 is none; negative numbers are refused"],
  [
    "FORCE_START_WITHOUT_INITIAL_CONFIG",
    "the process always starts; with a control plane this makes it healthy before the first set, too",
  ],
  ["GRPC_MAX_CONNECTION_AGE", "so that callers soon find new processes"],
  ["HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "without it, too, a process is not ready before it has read its rules"],
  ["LOCAL_CACHE_SIZE_IN_BYTES", "under COMPATIBILITY_MODE; otherwise DENIALS_MAX does this"],
  ["PROMETHEUS_ADDR", "the metrics are on PORT in any case"],
  ["PROMETHEUS_PATH", "on both ports"],
  ["REDIS_SOCKET_TYPE", "only compared with REDIS_URL, which says it already"],
  ["REDIS_TIMEOUT", "for connecting; calls wait for STORE_DEADLINE or STORE_PATIENCE"],
  ["REDIS_TYPE", "not needed with URLs such as `redis-sentinel://` in REDIS_URL"],
  ["REDIS_URL", "without it buckets live in the process; URLs such as `redis-sentinel://` are understood too"],
  ["REDIS_PERSECOND", "both are asked at once, and what one was paid is given back if the other refuses"],
  ["REDIS_PERSECOND_SOCKET_TYPE", "only compared with REDIS_PERSECOND_URL"],
  ["REDIS_PERSECOND_TIMEOUT", "for connecting; calls wait for STORE_DEADLINE or STORE_PATIENCE"],
  ["RUNTIME_ROOT", "RULES_DIR says all three in one"],
  ["STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "under COMPATIBILITY_MODE; otherwise a refused call pays nothing anyway"],
  [
    "TRACING_ENABLED",
    "the image has the packages of OpenTelemetry; elsewhere an error at start names those that are missing",
  ],
  ["TRACING_EXPORTER_PROTOCOL", "`http` is protobuf over HTTP, as there"],
  ["USE_DOG_STATSD", "may be on together with Prometheus"],
  ["USE_PROMETHEUS", "may be on together with statsd"],
  ["USE_STATSD", "may be on together with Prometheus; response times are not sent"],
]);

/** Markdown for all of `reference`, a map from the name of a variable to its default there ("" is none): those that need no word in one
 * sentence, a row for each other fate. */
export function referenceTable(reference: ReadonlyMap<string, string>): string {
  const names = new Map<string, string[]>();
  const defaults = new Map<string, Set<string>>();
  for (const [name, there] of reference) {
    const fate = fateOf(name, there);
    names.set(fate, [...(names.get(fate) ?? []), `\`${name}\``]);
    defaults.set(fate, (defaults.get(fate) ?? new Set()).add(there === "" ? "none" : `\`${there}\``));
  }
  const same = (names.get("") ?? []).join(", ");
  const rows = [...names]
    .filter(([fate]) => fate !== "")
    .map(
      ([fate, list]) =>
        `| ${list.join(", ")} | ${cell([...(defaults.get(fate) ?? [])].join(", "))} | ${cell(fate)} |\n`,
    );
  return `With the same meaning and default: ${same}.\n\n| variable | default there | here |\n|---|---|---|\n${rows.join("")}`;
}

/** What becomes of a variable here; "": the same as there. */
function fateOf(name: string, there: string): string {
  const idle = WITHOUT_EFFECT.get(name);
  if (idle !== undefined) return `accepted, without effect: ${idle}`;
  const rows = Object.values(SETTINGS) as unknown as readonly Setting<unknown, unknown>[];
  const row = rows.find((one) => one.name === name);
  if (row !== undefined) {
    const parts = [defaultNote(row, there), REMARKS.get(name)];
    return parts.filter((part) => part !== undefined).join("; ");
  }
  const foreign = FOREIGN.get(name);
  if (foreign === undefined) return "unknown";
  return `a warning at start${harmlessNote(foreign.harmless)}: ${foreign.note}`;
}

// Only what is set gives a warning; values that ask for what Headgate does anyway give none.
function harmlessNote(harmless: readonly string[]): string {
  return harmless.length === 0 ? "" : ` unless \`${harmless[0]}\``;
}

function defaultNote(row: Setting<unknown, unknown>, there: string): string | undefined {
  if (row.defaultShown === undefined) {
    const here = row.default === undefined ? "" : row.type.show(row.default);
    const asHere = there === "" ? undefined : row.type.parse(there);
    if (here === (asHere === undefined ? there : row.type.show(asHere))) return undefined;
  }
  return `default ${defaultOf(row)}`;
}
