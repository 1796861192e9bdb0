// Loads rules for commands: a directory, as the service would, or a single file.

import { stat } from "node:fs/promises";
import { buffer } from "node:stream/consumers";
import { errorCode, errorMessage } from "../../base/thrown.ts";
import { visible } from "../../base/visible.ts";
import { type CompileResult, compileRules } from "../../engine/rules/compile.ts";
import { formatProblem, makeProblem } from "../../engine/rules/problems.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import type { Problem, SourceFile, SourceNode } from "../../engine/rules/source.ts";
import { compileFiles, type LoadResult, loadRules } from "../../rule-sources/files/load.ts";
import { readOneFile } from "../../rule-sources/files/read-files.ts";
import { readDump } from "../../rule-sources/xds/dump.ts";
import { compileOptions, policyOf, readSettings, type Settings } from "../../settings/settings.ts";
import type { DecidingSettings } from "../simulate/simulated-service.ts";
import { sayTrouble, type Terminal } from "./terminal.ts";

/** Which rules to load. */
export interface RulesChoice {
  /** A directory or a file, `-` for standard input; undefined: where the service would look. */
  readonly path: string | undefined;
  /** Joins files of the same domain; undefined: as the service would. */
  readonly mergeDomains: true | undefined;
  /** Reads files of a named directory whatever their ending, as the reference service does; not unless given. */
  readonly everyFile?: boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Memory bound of a run that decides calls itself: at most 141 MB of buckets, twice, and once more with --against. */
const BUCKETS_MAX = 1_000_000;
const LOG_BYTES_MAX = 268_435_456;

/** Settings for finding rules and for deciding. Commands ignore mistakes in all others. */
const SETTINGS_READ = [
  /^(?:CONFIG_TYPE|RULES_DIR|RUNTIME_[A-Z]+|MERGE_DOMAIN_CONFIG|COMPATIBILITY_MODE|CACHE_KEY_PREFIX|RESPONSE_HEADERS|LIMIT_[A-Z_]+)$/,
  /^(?:SHADOW_MODE|QUOTA_MODE|ON_STORE_FAILURE|RETRY_AFTER_JITTER|NEAR_LIMIT_RATIO)$/,
  /^STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT$/,
];

/** The settings for loading rules and deciding calls, as the service would read them. Throws ConfigError. */
export function decidingSettings(env: Environment): Settings {
  return readSettings(
    Object.fromEntries(Object.entries(env).filter(([name]) => SETTINGS_READ.some((one) => one.test(name)))),
  );
}

/** What was loaded, with a single file's bytes: a pipe can't be read again. */
interface ChosenRules extends LoadResult {
  readonly file?: { readonly name: string; readonly bytes: Buffer };
}

/** A service under a control plane reads the files of RULES_DIR alone. */
const NO_FILES: LoadResult = { ruleSet: undefined, problems: [notSet()], hash: "", files: [] };

function notSet(): Problem {
  const why = "it is not set, but CONFIG_TYPE is GRPC_XDS_SOTW, and the service reads no rule files then";
  const at = { file: "RULES_DIR", line: 1, column: 1 };
  return makeProblem("error", at, why, "Name a file, such as that of RULES_CACHE.");
}

/**
 * Loads the chosen rules. Missing, unreadable and bad files are problems of the result. Rejects with ConfigError for
 * settings.
 */
export async function loadChosen(
  choice: RulesChoice,
  env: Environment,
  settings = decidingSettings(env),
): Promise<ChosenRules> {
  const mergeDomains = choice.mergeDomains ?? settings.mergesDomains;
  const isPartial = settings.configType === "grpc_xds_sotw";
  const options = { ...compileOptions(settings), mergeDomains, isPartial, dotFiles: !settings.ignoresDotFiles };
  if (choice.path === undefined && !settings.readsFiles) return NO_FILES;
  const { path = settings.rulesDir, everyFile = choice.path === undefined && settings.readsEveryFile } = choice;
  const isStandardInput = /^(?:-|\/dev\/stdin)$/.test(path);
  if (choice.path === undefined || !(isStandardInput || (await isFile(path)))) {
    // Paths stay as typed, so that editors and people find the files from their working directory.
    return loadRules(path, { ...options, everyFile, namePrefix: /[/\\]$/.test(path) ? path : `${path}/` });
  }
  const read = isStandardInput
    ? { files: [{ name: "stdin", bytes: await buffer(process.stdin) }], failures: [], hash: "" }
    : await readOneFile(path);
  const [file] = read.files;
  const resources = file && resourcesOf(file.name, file.bytes);
  if (resources !== undefined) {
    const names = resources.map(({ name }) => name);
    return { ...compileRules(resources, { ...options, isPartial: false }), hash: "", files: names };
  }
  return { ...compileFiles(path, read, options), ...(file === undefined ? {} : { file }) };
}

/**
 * The chosen rules. If they can't be used: undefined, exit code 2, and the problems on standard error; `called` as "the
 * rules".
 */
export async function rulesOrTrouble(
  choice: RulesChoice,
  called: string,
  terminal: Terminal,
  settings?: Settings,
): Promise<RuleSet | undefined> {
  const { ruleSet, problems } = await loadChosen(choice, terminal.env, settings);
  if (ruleSet !== undefined) return ruleSet;
  for (const problem of problems) terminal.err(`${visible(formatProblem(problem))}\n`);
  return sayTrouble(terminal, `${called} can't be used`);
}

/** Rules that a control plane sent, if the file is a dump of them. */
function resourcesOf(path: string, bytes: Buffer): SourceFile[] | undefined {
  try {
    return readDump(bytes.toString("utf8"));
  } catch (cause) {
    const message = `the kept rules can't be read: ${errorMessage(cause)}`;
    const problem = makeProblem("error", { file: path, line: 1, column: 1 }, message);
    return [{ name: path, root: undefined, problems: [problem] }];
  }
}

/** Compiles rules inside another file; problems have their places in that file. */
export function compileNode(file: string, root: SourceNode, settings: Settings): CompileResult {
  return compileRules([{ name: file, root, problems: [] }], compileOptions(settings));
}

/** The settings of the service that decisions depend on, with the memory of a command. */
export function virtualSettings(settings: Settings): DecidingSettings {
  const memory = { bucketsMax: BUCKETS_MAX, logBytesMax: LOG_BYTES_MAX };
  return { ...settings, ...memory, onStoreFailure: policyOf(settings), compatible: settings.compatibilityMode };
}

async function isFile(path: string): Promise<boolean> {
  try {
    // Pipes, too, as in `check <(make-rules)`.
    return !(await stat(path)).isDirectory();
  } catch (cause) {
    // A missing path is reported by its reader: as a file or as a directory, by its name.
    if (errorCode(cause) !== undefined) return /\.(?:yaml|yml|json)$/.test(path);
    throw cause;
  }
}
