// Decides calls by rules as `headgate test` does, and explains them as `headgate explain` does: by the same code, in the same virtual
// time. Text in, plain objects out.

import "./browser.ts";
import {
  base64Unless,
  type Descriptor,
  LimitRequest,
  textOf,
  type WrittenEntry,
} from "../src/engine/domain/request.ts";
import { canPassLater } from "../src/engine/limiter/decision.ts";
import { compileRules } from "../src/engine/rules/compile.ts";
import { explainRequest } from "../src/engine/rules/explain.ts";
import { formatProblem } from "../src/engine/rules/problems.ts";
import type { RuleSet } from "../src/engine/rules/rule-set.ts";
import type { MappingNode, Place, SourceFile, SourceNode } from "../src/engine/rules/source.ts";
import { decodeRequest } from "../src/grpc/rls/codec.ts";
import { parseFile } from "../src/rule-sources/files/parse-file.ts";
import { explainText } from "../src/tools/cli/explain-text.ts";
import { descriptorText } from "../src/tools/simulate/call-text.ts";
import { type CaseFile, readCases } from "../src/tools/simulate/cases/read-cases.ts";
import { type Answer, formatFailure, runCase } from "../src/tools/simulate/cases/run-case.ts";
import { COMPILING, DECIDING, HEADERS } from "./settings.ts";

/** A page that is asked for more would stand still. */
const CALLS_MAX = 100_000;
const COLUMNS = 80;

/** What became of one call. Times are in microseconds. */
export interface PlayedCall {
  readonly atUs: number;
  /** The line of the step that made it. */
  readonly line: number;
  readonly domain: string;
  /** As it would be typed, one a descriptor. */
  readonly says: readonly string[];
  readonly code: string;
  /** The limit that governs the answer; `none` if no limit has a say. */
  readonly rule: string;
  readonly remaining: number | undefined;
  readonly waitUs: number | undefined;
  readonly resetUs: number | undefined;
  /** False: the same call never passes, as when its cost is above the limit. */
  readonly canPass: boolean;
  /** Of a call that ended with an error. */
  readonly error: string | undefined;
}

export interface Played {
  /** Problems of rules and calls, and expectations that failed, with their places. */
  readonly problems: readonly string[];
  readonly startUs: number;
  readonly calls: readonly PlayedCall[];
  /** What `headgate explain` prints for the call at this index. */
  explain(index: number): string;
}

const NOTHING = { startUs: 0, calls: [], explain: () => "" };

/** Plays `calls`, a list of steps as a case of `headgate test` has them, on full buckets of `rules`, a rule file. */
export function play(rules: string, calls: string): Played {
  const parsed = parse("rules", rules);
  const { ruleSet, problems } = compileRules([parsed], COMPILING);
  const { file, problems: mistakes } = readCases(asCaseFile(parsed, parse("calls", calls)));
  const said = [...problems, ...mistakes].map(formatProblem);
  const [steps] = file?.cases ?? [];
  if (ruleSet === undefined || steps === undefined) return { ...NOTHING, problems: said };
  const asked = steps.steps.reduce((sum, { call, times }) => sum + (call === undefined ? 0 : times), 0);
  if (asked > CALLS_MAX) {
    const why = `calls: expected at most ${CALLS_MAX} calls, got ${asked}; \`headgate test\` makes more`;
    return { ...NOTHING, problems: [...said, why] };
  }
  return { ...run(ruleSet, steps, said), startUs: steps.startUs };
}

function run(ruleSet: RuleSet, steps: CaseFile["cases"][number], said: readonly string[]) {
  const calls: PlayedCall[] = [];
  const messages: (Buffer | undefined)[] = [];
  const coverage = { look: () => undefined };
  const { failures } = runCase(steps, {
    ruleSet,
    settings: DECIDING,
    headers: HEADERS,
    coverage,
    heard: (answer, atUs, { at, call }) => {
      calls.push(playedCall(answer, atUs, at));
      messages.push(call);
    },
  });
  const explain = (index: number) => {
    const domain = calls[index]?.domain ?? "";
    return explainText(explainRequest(ruleSet, domain, entriesOf(messages[index])), TERMINAL);
  };
  return { problems: [...said, ...failures.map(formatFailure)], calls, explain };
}

function playedCall({ code, governing, call, error }: Answer, atUs: number, at: Place): PlayedCall {
  const { request } = call;
  return {
    atUs,
    line: at.line,
    domain: textOf(request.domain),
    says: Array.from({ length: request.descriptorCount }, (_, i) => descriptorText(call, i, false)),
    code,
    rule: governing === undefined ? "none" : textOf(governing.limit.names.id),
    remaining: governing?.remaining,
    waitUs: governing?.waitUs,
    resetUs: governing?.resetUs,
    canPass: governing === undefined || canPassLater(governing),
    error,
  };
}

/** What the caller has sent: deciding a call writes its addresses in one spelling. */
function entriesOf(message: Buffer = Buffer.alloc(0)): readonly (readonly WrittenEntry[])[] {
  const request = new LimitRequest();
  decodeRequest(message, request);
  return request.descriptors.slice(0, request.descriptorCount).map(({ entryCount, keys, values }: Descriptor) =>
    keys.slice(0, entryCount).map((key, i) => {
      const value = values[i] ?? "";
      const valueBase64 = base64Unless(value);
      return { key: textOf(key), value: textOf(value), ...(valueBase64 === undefined ? {} : { valueBase64 }) };
    }),
  );
}

function parse(name: string, text: string): SourceFile {
  return parseFile({ name, bytes: Buffer.from(text) });
}

/** The file of cases that has these rules and, in its only case, these steps. */
function asCaseFile(rules: SourceFile, { name, root, problems }: SourceFile): SourceFile {
  const at = { file: name, line: 1, column: 1 };
  const steps = root ?? { kind: "sequence", at, items: [] };
  const one = mapping(at, { name: scalar(at, "played"), steps });
  const all = mapping(at, {
    ...(rules.root === undefined ? {} : { rules: rules.root }),
    cases: { kind: "sequence", at, items: [one] },
  });
  return { name, root: all, problems };
}

function mapping(at: Place, fields: Readonly<Record<string, SourceNode>>): MappingNode {
  const entries = Object.entries(fields).map(([key, value]) => ({ key: scalar(at, key), value, isMerged: false }));
  return { kind: "mapping", at, entries };
}

function scalar(at: Place, text: string) {
  return { kind: "scalar", at, text, isQuoted: true, value: { type: "text", text } } as const;
}

const TERMINAL = {
  out: () => undefined,
  err: () => undefined,
  setExitCode: () => undefined,
  isColoured: false,
  screenColumns: undefined,
  columns: COLUMNS,
  env: {},
};
