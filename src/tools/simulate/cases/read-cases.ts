// Turns a parsed file into its cases, or into every problem in it. docs/testing-rules.md describes the format.

import { UNIT_NAMES, WRITTEN_ALGORITHM_NAMES } from "../../../engine/domain/limit.ts";
import { ProblemLog } from "../../../engine/rules/problems.ts";
import type { MappingNode, ScalarNode, SourceFile, SourceNode } from "../../../engine/rules/source.ts";
import { askedEntry, type CallDescriptor, messageOf } from "../question.ts";
import { timeOfCall } from "../sources/time-of-call.ts";
import { readCaseLimits } from "./case-limits.ts";
import { CaseFields, mappingField, readDescriptorText, textField } from "./read-fields.ts";

const TIMES_MAX = 1_000_000;
/** When cases begin by default: at the start of a day, where windows up to a day begin, too. */
const START_US = Date.UTC(2026, 0, 1) * 1_000;

export const FILE_KEYS = ["rules", "domain", "settings", "start", "cases"];
export const CASE_KEYS = ["name", "domain", "start", "limits", "steps"];
/** What a call and each of its descriptors may have. */
const ASKED_KEYS = ["hits", "peek", "refund", "override"];
const CALL_KEYS = [...ASKED_KEYS, "times", "every", "expect"];
export const STEP_KEYS = ["after", "at", "store", "limits", "domain", "call", ...CALL_KEYS];
export const DESCRIPTOR_KEYS = ["entries", ...ASKED_KEYS];
export const EXPECT_KEYS = [
  "code",
  "rule",
  "remaining",
  "wait",
  "reset",
  "headers",
  "matches",
  "statuses",
  "reserved",
  "found",
];
export const OVERRIDE_KEYS = ["requests_per_unit", "unit", "unit_multiplier", "algorithm"];
const STORE_STATES = ["away", "back"] as const;
export const CODES = ["OK", "OVER_LIMIT", "UNAVAILABLE", "INVALID_ARGUMENT", "INTERNAL"];

/** What a settlement may have found; `nothing`: the descriptor is no settlement, or meets no rule with `hold`. */
export const FOUND = ["settled", "unknown", "already_settled", "unanswered", "nothing"] as const;

/** A file of cases as read. */
export type CaseFile = NonNullable<ReturnType<typeof readFile>>;

/** Reads a file of cases; `file` is undefined if any problem is an error. */
export function readCases(source: SourceFile) {
  const log = new ProblemLog();
  log.addAll(source.problems);
  const file = source.root === undefined ? undefined : readFile(source.name, source.root, log);
  return { file: log.hasErrors ? undefined : file, problems: log.sorted() };
}

/** False for a file that is no file of cases, such as rules. True if that is unclear. */
export function hasCases({ root, problems }: SourceFile): boolean {
  if (root?.kind === "mapping") return root.entries.some(({ key }) => key.text === "cases");
  return problems.some(({ severity }) => severity === "error");
}

/** Defaults of cases and steps. */
interface Defaults {
  readonly domain: string | undefined;
  readonly startUs: number;
}

function readFile(name: string, root: SourceNode, log: ProblemLog) {
  const mapping = mappingField(root, "a file of cases", log);
  if (mapping === undefined) return undefined;
  const fields = new CaseFields(mapping, FILE_KEYS, "at the top of the file", log);
  const rules = fields.value("rules");
  const defaults = { domain: fields.text("domain") ?? domainOf(rules), startUs: readTime(fields, "start") ?? START_US };
  const cases = fields.mappings("cases").map((one) => readCase(one, defaults, log));
  if (cases.length === 0) log.error(mapping.at, "cases: expected at least one case");
  const settings = [...fields.texts("settings")].map(([key, value]) => [key, value ?? ""]);
  return {
    name,
    /** A path relative to the file's folder, or the rules themselves; undefined: --rules names them. */
    rules: (rules?.kind === "scalar" ? rules.text : rules) as string | SourceNode | undefined,
    /** Environment variables of the service, by name. */
    settings: Object.fromEntries(settings) as Readonly<Record<string, string>>,
    cases,
  };
}

/** The domain of the rules inside the file: calls need not repeat it. */
function domainOf(rules: SourceNode | undefined): string | undefined {
  if (rules?.kind !== "mapping") return undefined;
  const value = rules.entries.find(({ key }) => key.text === "domain")?.value;
  return value?.kind === "scalar" ? value.text : undefined;
}

function readCase(node: MappingNode, { domain, startUs }: Defaults, log: ProblemLog) {
  const fields = new CaseFields(node, CASE_KEYS, "in a case", log);
  const own = { domain: fields.text("domain") ?? domain, startUs: readTime(fields, "start") ?? startUs };
  const steps = fields.mappings("steps").map((step) => readStep(step, own, log));
  const name = fields.text("name");
  if (name === undefined) log.error(node.at, "a case needs a 'name'");
  if (steps.length === 0) log.error(node.at, "steps: expected at least one step");
  // What is in force from the beginning is set by a step of its own.
  const entries = node.entries.filter(({ key }) => key.text === "limits");
  const begin = readStep({ kind: "mapping", at: node.at, entries }, own, log);
  return { name: name ?? "", at: node.at, startUs: own.startUs, steps: [begin, ...steps] };
}

/**
 * One step of a time line: time moves, then the store comes or goes, then limits at run time are set, then calls are
 * made.
 */
function readStep(node: MappingNode, { domain }: Defaults, log: ProblemLog) {
  const fields = new CaseFields(node, STEP_KEYS, "in a step", log);
  const ofCalls = fields.text("domain") ?? domain;
  const call = readCall(fields, ofCalls, log);
  const expect = fields.value("expect");
  const hasCallKey = CALL_KEYS.find((key) => fields.value(key));
  if (fields.value("call") === undefined && hasCallKey !== undefined) {
    log.error(node.at, `'${hasCallKey}' needs a 'call'`);
  }
  return {
    at: node.at,
    afterUs: fields.duration("after") ?? 0,
    /** Where the clock is set, forwards or back; undefined: it goes on. */
    setUs: readTime(fields, "at"),
    /** Set or unset before the call. */
    limits: readCaseLimits(fields, ofCalls),
    store: STORE_STATES[fields.word("store", STORE_STATES) ?? -1],
    /** The message; undefined: no call. */
    call,
    /** How often the call is made, and the time between two such calls. */
    times: fields.whole("times", 1, TIMES_MAX) ?? 1,
    everyUs: fields.duration("every") ?? 0,
    expect: expect === undefined ? undefined : readExpectation(expect, log),
  };
}

function readCall(fields: CaseFields, domain: string | undefined, log: ProblemLog): Buffer | undefined {
  const node = fields.value("call");
  if (node === undefined) return undefined;
  if (domain === undefined) {
    log.error(node.at, "the call has no domain", "Write 'domain' at the top of the file, in the case or in the step.");
  }
  const own = readAsked(fields);
  const items = node.kind === "sequence" ? node.items : [node];
  const descriptors = items.map((item) => ({ ...own, ...readDescriptor(item, log) }));
  return messageOf({ domain: domain ?? "", descriptors, hitsAddend: 0 });
}

function readDescriptor(node: SourceNode, log: ProblemLog): CallDescriptor {
  if (node.kind === "scalar") return { entries: readEntries(node, log) };
  const mapping = mappingField(node, "call", log);
  if (mapping === undefined) return { entries: [] };
  const fields = new CaseFields(mapping, DESCRIPTOR_KEYS, "in a descriptor of a call", log);
  const entries = fields.value("entries");
  return { entries: entries === undefined ? [] : readEntries(entries, log), ...readAsked(fields) };
}

/** Hits, refund and override of a call or of one descriptor; only those that are given. */
function readAsked(fields: CaseFields): Omit<CallDescriptor, "entries"> {
  const hits = fields.flag("peek") ? 0 : fields.whole("hits", 0, Number.MAX_SAFE_INTEGER);
  const override = fields.section("override", { keys: OVERRIDE_KEYS, title: "in 'override'" });
  const amount = override?.whole("requests_per_unit", 0) ?? 0;
  const unit = override?.word("unit", UNIT_NAMES) ?? 0;
  const units = override?.whole("unit_multiplier", 1);
  const algorithm = override?.word("algorithm", WRITTEN_ALGORITHM_NAMES);
  const others = {
    ...(units === undefined ? {} : { units }),
    ...(algorithm === undefined ? {} : { algorithm: WRITTEN_ALGORITHM_NAMES[algorithm] as string }),
  };
  return {
    ...(hits === undefined ? {} : { hits }),
    ...(fields.flag("refund") ? { isRefund: true } : {}),
    ...(override === undefined ? {} : { override: { amount, unit, ...others } }),
  };
}

function readEntries(node: SourceNode, log: ProblemLog): CallDescriptor["entries"] {
  return readDescriptorText(node, "call", log).map(askedEntry);
}

/**
 * What an answer must be; what is undefined is not checked. `code` applies to each of a step's calls, all else to the
 * last of them.
 */
function readExpectation(node: SourceNode, log: ProblemLog) {
  const mapping = node.kind === "scalar" ? undefined : mappingField(node, "expect", log);
  const nothing: MappingNode = { kind: "mapping", at: node.at, entries: [] };
  const fields = new CaseFields(mapping ?? nothing, EXPECT_KEYS, "in 'expect'", log);
  const code = node.kind === "scalar" ? node : fields.value("code");
  return {
    at: node.at,
    /** OK, OVER_LIMIT, or the name of a gRPC status. */
    code: code === undefined ? undefined : readCode(code, log),
    /** The limit that governs the answer: its id, its id without the domain, its name, or its rule's path. */
    rule: fields.text("rule"),
    remaining: fields.whole("remaining", 0, Number.MAX_SAFE_INTEGER),
    waitUs: fields.duration("wait"),
    resetUs: fields.duration("reset"),
    /** Headers for the client; null: there must be no such header. */
    headers: fields.texts("headers"),
    // A single word of these lists is for all descriptors.
    /** The path of each descriptor's rule, or `nothing`. */
    matches: fields.list("matches"),
    /** The code of each descriptor. */
    statuses: fields.list("statuses"),
    /** What each descriptor holds of a rule with `hold`, in the caller's unit. */
    reserved: fields.list("reserved", "a whole number from 0", ({ value }) => isAmount(value)),
    /** What the settlement of each descriptor found, one of FOUND. */
    found: fields.list("found", `one of ${FOUND.join(", ")}`, ({ text }) => FOUND.some((word) => word === text)),
  };
}

function isAmount(value: ScalarNode["value"]): boolean {
  return value.type === "integer" && value.number >= 0;
}

function readCode(node: SourceNode, log: ProblemLog): string | undefined {
  const code = textField(node, "expect", log);
  if (code !== undefined && CODES.includes(code)) return code;
  if (code !== undefined) log.error(node.at, `expected one of ${CODES.join(", ")}, got '${code}'`);
  return undefined;
}

function readTime(fields: CaseFields, name: string): number | undefined {
  const node = fields.value(name);
  if (node === undefined) return undefined;
  const us = node.kind === "scalar" ? timeOfCall(node.text) : undefined;
  if (us === undefined) fields.log.error(node.at, `${name}: expected a time such as 2026-01-31T10:00:00Z`);
  return us;
}
