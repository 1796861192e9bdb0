// Reads and checks the settings of the process from environment variables, and reports all mistakes at once.
// settings/table.ts has names and defaults, settings/value-types.ts the accepted texts.

import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { ConfigError } from "../base/errors.ts";
import { ON_STORE_FAILURE_NAMES, type OnStoreFailure } from "../engine/domain/limit.ts";
import { FORMER_SECRETS, findForeignNames } from "./foreign-names.ts";
import type { HeaderDialect } from "./header-dialects.ts";
import { checkBoth, checkReadable, quotedUnlessSecret } from "./mistakes.ts";
import { postgresOf } from "./postgres-settings.ts";
import { redisOf } from "./redis-settings.ts";
import { namesOf, type Setting } from "./setting.ts";
import type { BackendType } from "./store-table.ts";
import { SETTINGS, type TableValues } from "./table.ts";
import { tracesOf } from "./trace-settings.ts";

export type { RedisSettings } from "./redis-settings.ts";

/** All settings, complete and frozen. The names of durations end in their unit. */
export type Settings = Readonly<ReturnType<typeof completed>> & {
  /** What the operator should know, one line per warning. */
  readonly warnings: readonly string[];
};

/** Environment variables by name, as `process.env` has them. */
export type Environment = Readonly<Record<string, string | undefined>>;

type AnySetting = Setting<unknown, unknown>;

/** The rules that come with the package; src/ and dist/ are equally deep. */
const PACKAGE_RULES_DIR = fileURLToPath(new URL("../../deploy/rules", import.meta.url));

/** Defaults of the reference service. */
const REFERENCE_DEBUG_PORT = 6070;
const REFERENCE_PROMETHEUS_ADDRESS = Object.freeze({ host: "0.0.0.0", port: 9090 });

/** Envoy's default timeout for a rate limit service. */
const ENVOY_TIMEOUT_US = 20_000;

/**
 * Reads and checks all settings. Throws ConfigError CONFIG_SETTINGS with one line per mistake (name, what was expected,
 * what came; secrets are not shown). Opens no file, but checks that the files of settings can be read.
 */
export function readSettings(env: Environment): Settings {
  const { settings, mistakes } = readWithMistakes(env);
  if (mistakes.length > 0) {
    const count = mistakes.length === 1 ? "1 setting" : `${mistakes.length} settings`;
    throw new ConfigError("CONFIG_SETTINGS", `${count} can't be used:\n${mistakes.join("\n")}`, mistakes);
  }
  return settings;
}

/** All settings, those that can't be used with their defaults, and one line per mistake. */
export function readWithMistakes(env: Environment): {
  readonly settings: Settings;
  readonly mistakes: readonly string[];
} {
  const mistakes: string[] = [];
  const warnings: string[] = [];
  const values = readTable(env, mistakes, warnings);
  findForeignNames(env, settingNames(), mistakes, warnings);
  checkTogether(values, mistakes, warnings);
  const found = completed(values, env, mistakes, warnings);
  // A platform may set OTEL_* for every process, so they matter only if traces are asked for.
  const matters = (line: string) => found.traces !== undefined || !/^OTEL_(?!TRACES_EXPORTER)/.test(line);
  const settings = Object.freeze({ ...found, warnings: Object.freeze(warnings.filter(matters)) });
  return { settings, mistakes: mistakes.filter(matters) };
}

/** The table's values, and those derived from several of them or from the environment. */
function completed(values: TableValues, env: Environment, mistakes: string[], warnings: string[]) {
  const { compatibilityMode } = values;
  const backendType = backendTypeOf(values);
  if (values.memorySnapshot !== undefined && backendType !== "memory")
    warnings.push(`MEMORY_SNAPSHOT: no effect, because buckets live in ${backendType}`);
  return {
    ...values,
    ...rulesPlace(values, env),
    backendType,
    // On a terminal main.ts sets LOG_FORMAT.
    logFormat: values.logFormat ?? ("json" as const),
    // The reference service's default under COMPATIBILITY_MODE.
    onStoreFailure: values.onStoreFailure ?? (compatibilityMode ? "error" : "allow"),
    // As in the reference service, STATSD_HOST alone turns statsd on.
    usesStatsd: values.usesStatsd ?? (compatibilityMode && (env.STATSD_HOST ?? "").trim() !== ""),
    /** Port of the debug pages; undefined: none. Envoy Gateway's command line reads /rlconfig on it. */
    debugPort:
      values.debugPort ?? (compatibilityMode || values.configType !== "file" ? REFERENCE_DEBUG_PORT : undefined),
    /** Address that also serves the metrics; undefined: only the HTTP port does. */
    prometheusAddress: prometheusAddress(values),
    ignoresDotFiles: values.ignoresDotFiles ?? !compatibilityMode,
    /** Families of headers to send, with the one of LIMIT_RESPONSE_HEADERS_ENABLED. */
    responseHeaders: headersOf(values),
    /**
     * Where Redis is, and the one for limits per second, and how to reach them; undefined unless `backendType` is
     * redis.
     */
    ...redisOf(values, backendType, mistakes, warnings),
    /** Where PostgreSQL is and how to reach it; undefined unless `backendType` is postgres. */
    postgres: postgresOf(values, backendType, mistakes, warnings),
    /** How calls are traced; undefined if they are not. */
    traces: tracesOf(values, mistakes),
  };
}

/** ON_STORE_FAILURE as limits have it. */
export function policyOf({ onStoreFailure }: Settings): OnStoreFailure {
  return ON_STORE_FAILURE_NAMES.indexOf(onStoreFailure) as OnStoreFailure;
}

/** What the settings say about compiling rules. */
export function compileOptions(settings: Settings) {
  return {
    cacheKeyPrefix: settings.cacheKeyPrefix,
    mergeDomains: settings.mergesDomains,
    defaultOnStoreFailure: policyOf(settings),
    defaultRetryAfterJitter: settings.retryAfterJitter,
    compatible: settings.compatibilityMode,
  };
}

/** Every setting in force by the name of its variable, with secrets redacted; "" if it has no value. */
export function describeSettings(settings: Settings): Readonly<Record<string, string>> {
  const shown: Record<string, string> = {};
  for (const [field, setting] of tableRows()) {
    const value = settings[field];
    shown[setting.name] = value === undefined ? "" : setting.type.show(value);
  }
  return shown;
}

/** All secret texts, which must never be logged or shown. */
export function secretsOf(settings: Settings): readonly string[] {
  const texts = [
    ...[settings.redis, settings.perSecondRedis].flatMap((redis) => [
      redis?.login?.password,
      redis?.kind === "sentinel" ? redis.sentinelAccess.login?.password : undefined,
    ]),
    settings.redisAuth,
    settings.redisSentinelAuth,
    settings.redisPerSecondAuth,
    settings.redisPerSecondSentinelAuth,
    settings.postgres?.password,
    settings.postgresPassword,
    settings.adminToken,
    ...(settings.xdsHeaders?.values() ?? []),
    ...Object.values(settings.traces?.headers ?? {}),
  ].filter((text) => text !== undefined);
  return [...new Set(texts)];
}

/**
 * Deletes secret settings from this process's environment, which diagnostic reports of Node.js contain. From Node.js
 * 22.13 and 23.3 on, also leaves the whole environment out of reports, and so other programs' secrets.
 */
export function deleteSecrets(): void {
  const rows = tableRows().filter(([, { type }]) => type.isSecret);
  for (const name of [...rows.flatMap(([, setting]) => namesOf(setting)), ...FORMER_SECRETS]) delete process.env[name];
  if ("excludeEnv" in process.report) process.report.excludeEnv = true;
}

/** The rows of the table with their fields, typed for iteration. */
export function tableRows(): readonly (readonly [keyof TableValues, AnySetting])[] {
  return Object.entries(SETTINGS) as unknown as (readonly [keyof TableValues, AnySetting])[];
}

/** All variables that are read. */
export function settingNames(): readonly string[] {
  return tableRows().flatMap(([, setting]) => namesOf(setting));
}

function readTable(env: Environment, mistakes: string[], warnings: string[]): TableValues {
  const values: Record<string, unknown> = {};
  for (const [field, setting] of tableRows()) {
    values[field] = setting.default;
    for (const name of namesOf(setting).toReversed()) {
      const value = readOne(name, setting, env[name], mistakes, warnings);
      if (value !== undefined) values[field] = value;
    }
  }
  return values as unknown as TableValues;
}

/** Undefined if the variable is not set or can't be used. */
function readOne(
  name: string,
  setting: AnySetting,
  raw: string | undefined,
  mistakes: string[],
  warnings: string[],
): unknown {
  if (raw === undefined) return undefined;
  const text = setting.type.isSecret ? raw : raw.trim();
  if (text.trim() === "") {
    warnings.push(`${name}: set but empty, so ignored`);
    return undefined;
  }
  const value = setting.type.parse(text);
  if (value === undefined) mistakes.push(`${name}: expected ${setting.type.expects}, got ${showGiven(setting, text)}`);
  else if (setting.type.isFile) checkReadable(name, text, mistakes);
  return value;
}

function showGiven(setting: AnySetting, text: string): string {
  if (setting.type.isSecret) {
    const what = /[\r\n]$/.test(text) ? "text that ends in a line break, as echo writes it" : "something else";
    return `${what} (${text.length} characters, not shown)`;
  }
  const shown = quotedUnlessSecret(text);
  // Kubernetes sets such values for Services: one named "grpc" sets GRPC_PORT.
  const isServiceLink = /^(?:tcp|udp):\/\//.test(text);
  return isServiceLink ? `${shown} (set by Kubernetes for a Service of that name? See enableServiceLinks)` : shown;
}

function checkTogether(values: TableValues, mistakes: string[], warnings: string[]): void {
  if (
    values.grpcUnixSocket === undefined &&
    values.grpcPort !== 0 &&
    values.grpcPort === values.httpPort &&
    values.grpcHost === values.httpHost
  ) {
    mistakes.push(`GRPC_PORT: expected a port other than PORT, got ${values.grpcPort} for both`);
  }
  checkTls(values, mistakes);
  checkXds(values, mistakes, warnings);
  if (values.adminToken !== undefined && values.adminTokenFile !== undefined)
    mistakes.push("ADMIN_TOKEN, ADMIN_TOKEN_FILE: expected one of the two, got both");
  const headers = [values.limitHeader, values.remainingHeader, values.resetHeader];
  if (new Set(headers.map((name) => name.toLowerCase())).size < headers.length) {
    mistakes.push(
      `LIMIT_LIMIT_HEADER, LIMIT_REMAINING_HEADER, LIMIT_RESET_HEADER: expected three names, got ${headers.join(", ")}`,
    );
  }
  warnOfSurprises(values, warnings);
}

/** Warns of valid settings that may not do what the operator expects. */
function warnOfSurprises(values: TableValues, warnings: string[]): void {
  const { compatibilityMode, backendType, redisUrl, postgresUrl } = values;
  if (compatibilityMode && backendType === undefined && redisUrl === undefined && postgresUrl === undefined) {
    warnings.push("REDIS_URL: not set, so counters stay in this process and are not shared");
  }
  if (!compatibilityMode && (values.stopsAtOver || values.localCacheBytes > 0)) {
    warnings.push(
      "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT, LOCAL_CACHE_SIZE_IN_BYTES: no effect, because COMPATIBILITY_MODE is false",
    );
  }
  if (values.storeDeadlineUs >= ENVOY_TIMEOUT_US) {
    warnings.push("STORE_DEADLINE: Envoy gives up after 20ms by default, before Headgate would notice a slow store");
  }
}

function checkTls(values: TableValues, mistakes: string[]): void {
  const files = { GRPC_SERVER_TLS_CERT: values.grpcTlsCertFile, GRPC_SERVER_TLS_KEY: values.grpcTlsKeyFile };
  for (const [name, file] of Object.entries(files)) {
    if (values.grpcUsesTls && file === undefined)
      mistakes.push(`${name}: expected a file, because GRPC_SERVER_USE_TLS is true; got nothing`);
  }
  const { grpcClientCaFile: clientCa } = values;
  if (clientCa !== undefined && !values.grpcUsesTls)
    mistakes.push("GRPC_CLIENT_TLS_CACERT: callers would not be checked, because GRPC_SERVER_USE_TLS is not true");
  if (values.grpcClientName !== undefined && clientCa === undefined)
    mistakes.push("GRPC_CLIENT_TLS_SAN: callers would not be checked, because GRPC_CLIENT_TLS_CACERT is not set");
}

function checkXds(values: TableValues, mistakes: string[], warnings: string[]): void {
  const { configType, xdsUsesTls, xdsCertFile, xdsKeyFile, xdsCaFile, xdsServerName, rulesCache } = values;
  checkBoth("CONFIG_GRPC_XDS_CLIENT_TLS_CERT, CONFIG_GRPC_XDS_CLIENT_TLS_KEY", xdsCertFile, xdsKeyFile, mistakes);
  if (!xdsUsesTls && [xdsCertFile, xdsCaFile, xdsServerName].some((value) => value !== undefined)) {
    warnings.push(
      "CONFIG_GRPC_XDS_CLIENT_TLS_CERT, CONFIG_GRPC_XDS_SERVER_TLS_CACERT, CONFIG_GRPC_XDS_SERVER_TLS_SAN: no effect, because CONFIG_GRPC_XDS_SERVER_USE_TLS is false",
    );
  }
  if (configType === "file" && rulesCache !== undefined)
    warnings.push("RULES_CACHE: no effect, because CONFIG_TYPE is FILE");
}

/** BACKEND_TYPE, else the store whose URL is set, else memory. */
function backendTypeOf({ backendType, redisUrl, postgresUrl }: TableValues): BackendType {
  if (backendType !== undefined) return backendType;
  if (redisUrl !== undefined) return "redis";
  return postgresUrl === undefined ? "memory" : "postgres";
}

/**
 * The absolute path of the directory of the rule files. `readsEveryFile` in the RUNTIME_* directory, where every file
 * is one; without `readsFiles` rules come from a control plane alone. `servesExamples`: nothing names a directory.
 */
function rulesPlace(values: TableValues, env: Environment) {
  if (values.rulesDir !== undefined)
    return { rulesDir: resolve(values.rulesDir), readsEveryFile: false, readsFiles: true, servesExamples: false };
  const readsFiles = values.configType === "file";
  const usesRuntime = [env.RUNTIME_ROOT, env.RUNTIME_SUBDIRECTORY].some((text) => (text ?? "").trim() !== "");
  if (!usesRuntime)
    return { rulesDir: PACKAGE_RULES_DIR, readsEveryFile: false, readsFiles, servesExamples: readsFiles };
  const directory = join(values.runtimeRoot, values.runtimeSubdirectory, values.runtimeAppDirectory);
  return { rulesDir: resolve(directory), readsEveryFile: true, readsFiles, servesExamples: false };
}

function prometheusAddress(values: TableValues): TableValues["prometheusAddress"] {
  const { usesPrometheus, prometheusAddress: address, compatibilityMode } = values;
  if (usesPrometheus === false) return undefined;
  return address ?? (usesPrometheus === true && compatibilityMode ? REFERENCE_PROMETHEUS_ADDRESS : undefined);
}

function headersOf(values: TableValues): readonly HeaderDialect[] {
  if (!values.limitHeadersEnabled || values.responseHeaders.includes("ratelimit")) return values.responseHeaders;
  return Object.freeze<HeaderDialect[]>(["ratelimit", ...values.responseHeaders]);
}
